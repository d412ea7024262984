package projections_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/attention"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/route"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/stays"
	"github.com/musterhq/muster/projections/talk"
	"github.com/musterhq/muster/projections/transitions"
)

// fleet is a fleet of accounts with ids of 20 bytes that come up in five
// events each, so many accounts side by side: all of them at every step before
// the next is the worst order for a cache.
type fleet struct {
	window  int // accounts that come up side by side
	ids     []string
	parts   []int
	numbers []uint32
	roster  *projections.Roster
	seqs    []uint64
	labels  []map[string]string
}

const fleetPartitions = 4

func newFleet(n int) *fleet {
	f := &fleet{window: n, roster: projections.NewRoster(fleetPartitions), seqs: make([]uint64, fleetPartitions)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		id := fmt.Sprintf("+%019d", 15550000000+uint64(i)*7+rng.Uint64N(7))
		p := eventlog.Partition(id, fleetPartitions)
		f.ids = append(f.ids, id)
		f.parts = append(f.parts, p)
		f.numbers = append(f.numbers, f.roster.Ids(p).Add(id))
	}
	for _, pool := range []string{"eu", "us", "ap", "za"} {
		f.labels = append(f.labels, map[string]string{"pool": pool})
	}
	rng.Shuffle(n, func(i, j int) {
		f.ids[i], f.ids[j] = f.ids[j], f.ids[i]
		f.parts[i], f.parts[j] = f.parts[j], f.parts[i]
		f.numbers[i], f.numbers[j] = f.numbers[j], f.numbers[i]
	})
	return f
}

var life = []domain.Event{
	{Trigger: "start", From: "IDLE", To: "CONNECTING", Machine: "whatsapp@2", Initial: "IDLE", Mode: domain.ModeObserve, By: domain.ByUser, Source: "ops", Effects: domain.EffectWantRun | domain.EffectOpen | domain.EffectSourceKept},
	{Trigger: "qr_received", From: "CONNECTING", To: "QR_REQUIRED", Source: "waha-1"},
	{Trigger: "qr_scanned", From: "QR_REQUIRED", To: "SYNCING", Source: "waha-1"},
	{Trigger: "sync_completed", From: "SYNCING", To: "RUNNING", Source: "waha-1", Effects: domain.EffectUp | domain.EffectRan},
	{Trigger: "connection_lost", From: "RUNNING", To: "DISCONNECTED", Source: "waha-1", Reason: domain.Reason{Code: "515"}},
}

// events calls apply with n events of the fleet's life.
func (f *fleet) events(n int, apply func(projections.Place, *domain.Event)) {
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).UnixNano()
	var e domain.Event
	for i := range n {
		round, step := i/(f.window*len(life)), i/f.window%len(life)
		who := round*f.window + i%f.window
		e = life[step]
		e.Account, e.Version = domain.AccountID(f.ids[who]), uint64(step+1)
		e.Kind, e.Outcome = domain.KindSession, domain.Applied
		e.At = start + int64(i)*int64(20*time.Microsecond) + int64(step)*int64(10*time.Second)
		if step == 0 {
			e.Labels = f.labels[who%len(f.labels)]
		}
		p := f.parts[who]
		f.seqs[p]++
		apply(projections.Place{Partition: p, Seq: f.seqs[p], Account: f.numbers[who]}, &e)
	}
}

func (f *fleet) views() []projections.View {
	judge := domain.NewJudge(projectiontest.Registry())
	return []projections.View{
		accounts.New(f.roster, judge),
		distribution.New(fleetPartitions, judge.Machines()),
		transitions.New(fleetPartitions),
		readytime.New(fleetPartitions, judge.Machines()),
		attention.New(f.roster, judge.Machines()),
		route.New(f.roster, judge.Machines()),
		stays.New(f.roster, judge.Machines()),
		talk.New(f.roster),
	}
}

// cpu is the processor time that the process has used: on a machine that does
// other things as well, the clock on the wall says nothing.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkApply folds 200 000 accounts with 5 events each.
func BenchmarkApply(b *testing.B) {
	const n = 200_000
	names := []string{"accounts", "distribution", "transitions", "readytime", "attention", "route", "stays", "talk", "all", "all, 2000 accounts at a time"}
	for i, name := range names {
		b.Run(name, func(b *testing.B) {
			var bytes float64
			var spent time.Duration
			events := 0
			for b.Loop() {
				b.StopTimer()
				f := newFleet(n)
				if i == len(names)-1 {
					f.window = 2000
				}
				before := heap()
				views := f.views()
				if i < len(views) {
					views = views[i : i+1] // one of them
				}
				b.StartTimer()
				began := cpu()
				f.events(5*n, func(at projections.Place, e *domain.Event) {
					for _, v := range views {
						v.Apply(at, e)
					}
				})
				for _, v := range views {
					if s, ok := v.(projections.Settler); ok {
						s.Settle()
					}
				}
				spent += cpu() - began
				events += 5 * n
				b.StopTimer()
				bytes = float64(heap()) - float64(before)
				runtime.KeepAlive(views)
				runtime.KeepAlive(f)
				b.StartTimer()
			}
			b.ReportMetric(float64(events)/spent.Seconds(), "events/cpu-s")
			b.ReportMetric(bytes/n, "bytes/account")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRoster enters 1 000 000 ids of 20 bytes and finds them again.
func BenchmarkRoster(b *testing.B) {
	const n = 1_000_000
	var bytes float64
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("+%019d", 15550000000+i)
		}
		before := heap()
		b.StartTimer()
		began := cpu()
		r := projections.NewRoster(1).Ids(0)
		for range 2 {
			for _, id := range ids {
				r.Add(id)
			}
		}
		spent += cpu() - began
		b.StopTimer()
		bytes = float64(heap()) - float64(before)
		runtime.KeepAlive(r)
		runtime.KeepAlive(ids)
		b.StartTimer()
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/(2*n), "cpu-ns/id")
	b.ReportMetric(bytes/n, "bytes/account")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPage reads pages of 100 and of 1000 among 1 000 000 accounts, at
// random places.
func BenchmarkPage(b *testing.B) {
	const n = 1_000_000
	f := newFleet(n)
	views := f.views()[:1]
	f.events(4*n+500, func(at projections.Place, e *domain.Event) { views[0].Apply(at, e) })
	v := views[0].(*accounts.View)
	v.Settle()
	for _, c := range []struct {
		name   string
		filter accounts.Filter
		limit  int
	}{
		{"100 of all", accounts.Filter{}, 100},
		{"1000 of all", accounts.Filter{}, 1000},
		{"1000 of 250 000 with a label", accounts.Filter{Labels: map[string]string{"pool": "eu"}}, 1000},
		{"1000 of 500 in a state", accounts.Filter{State: "DISCONNECTED"}, 1000},
		{"1000 by prefix", accounts.Filter{Prefix: "+00000000155512"}, 1000},
		{"100 that nobody matches", accounts.Filter{Desired: "nothing"}, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			worst := time.Duration(0)
			for b.Loop() {
				began := time.Now()
				v.List(c.filter, f.ids[rng.IntN(n)], c.limit)
				worst = max(worst, time.Since(began))
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
	b.Run("one account", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			v.Get(domain.AccountID(f.ids[rng.IntN(n)]))
		}
	})
}

// BenchmarkStats puts the numbers of 200 000 accounts together, a fifth of
// which wait.
func BenchmarkStats(b *testing.B) {
	const n = 200_000
	f := newFleet(n)
	views := f.views()
	f.events(4*n-n/5, func(at projections.Place, e *domain.Event) {
		for _, v := range views {
			v.Apply(at, e)
		}
	})
	d, tr, r := views[1].(*distribution.View), views[2].(*transitions.View), views[3].(*readytime.View)
	now := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC).UnixNano()
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			stats.Of(nil, d, tr, r, now)
		}
	})
	b.Run("history by minute", func(b *testing.B) {
		for b.Loop() {
			d.History(distribution.ByMinute, now)
		}
	})
	b.ReportMetric(float64(d.HistoryBytes())/fleetPartitions/(distribution.MinutesKept+distribution.HoursKept), "distribution-bytes/bucket")
	b.ReportMetric(float64(tr.Bytes())/fleetPartitions/transitions.MinutesKept, "transitions-bytes/minute")
}

// BenchmarkSave saves and loads all views of 200 000 accounts.
func BenchmarkSave(b *testing.B) {
	const n = 200_000
	f := newFleet(n)
	views := f.views()
	f.events(5*n, func(at projections.Place, e *domain.Event) {
		for _, v := range views {
			v.Apply(at, e)
		}
	})
	for _, v := range views {
		b.Run(v.Name(), func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = 0
				for p := range fleetPartitions {
					var w counter
					if err := v.Save(p, &w); err != nil {
						b.Fatal(err)
					}
					size += int(w)
				}
			}
			b.ReportMetric(float64(size)/n, "bytes/account")
		})
	}
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
