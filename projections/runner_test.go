package projections_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a view that knows exactly what it was given: per partition the
// number of events and a hash over their places, accounts and versions.
type recorder struct {
	name    string
	version int

	mu       sync.Mutex
	parts    []recorded
	damaged  []projections.Place
	repeated int // events that it held already: the Runner should have dropped them
}

type recorded struct {
	seq, events, hash uint64
}

func newRecorder(partitions int) *recorder {
	return &recorder{name: "recorder", version: 1, parts: make([]recorded, partitions)}
}

func (v *recorder) Name() string { return v.name }
func (v *recorder) Version() int { return v.version }

func (v *recorder) Apply(at projections.Place, e *domain.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := &v.parts[at.Partition]
	if at.Seq <= p.seq {
		v.repeated++
		return
	}
	p.seq = at.Seq
	p.events++
	h := fnv.New64a()
	fmt.Fprint(h, p.hash, at, e.Account, e.Version, e.Trigger)
	p.hash = h.Sum64()
}

func (v *recorder) Damaged(at projections.Place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.damaged = append(v.damaged, at)
}

func (v *recorder) Save(partition int, w io.Writer) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return binary.Write(w, binary.LittleEndian, []uint64{v.parts[partition].seq, v.parts[partition].events, v.parts[partition].hash})
}

func (v *recorder) Load(partition int, r io.Reader) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var n [3]uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return err
	}
	v.parts[partition] = recorded{n[0], n[1], n[2]}
	return nil
}

func (v *recorder) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.parts)
}

func (v *recorder) state() []recorded {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.parts)
}

// writer appends events of some accounts to a log, as its only writer.
type writer struct {
	t        *testing.T
	log      *memlog.Log
	last     map[string]uint64 // sequence of an account's last record
	versions map[string]uint64
}

func newWriter(t *testing.T, log *memlog.Log) *writer {
	return &writer{t: t, log: log, last: map[string]uint64{}, versions: map[string]uint64{}}
}

// write appends n events over some accounts and returns their records, in
// order, by partition.
func (w *writer) write(n int) map[int][]eventlog.Record {
	records := map[int][]eventlog.Record{}
	for i := range n {
		r := w.one(fmt.Sprint("acct-", i%17))
		records[r.Partition] = append(records[r.Partition], r)
	}
	return records
}

// one appends one event of an account.
func (w *writer) one(account string) eventlog.Record {
	w.t.Helper()
	w.versions[account]++
	return w.raw(account, encode(w.t, account, w.versions[account]))
}

func encode(t *testing.T, account string, version uint64) []byte {
	t.Helper()
	data, err := codec.Encode(&domain.Event{
		Version: version, Account: domain.AccountID(account), Kind: domain.KindSession,
		Trigger: "start", Outcome: domain.Applied, From: "IDLE", To: "CONNECTING",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (w *writer) raw(account string, data []byte) eventlog.Record {
	w.t.Helper()
	p := eventlog.Partition(account, w.log.Partitions())
	res := w.log.Append(context.Background(), p, []eventlog.Entry{{Account: account, Expect: w.last[account], Data: data}})
	if res[0].Err != nil {
		w.t.Fatal(res[0].Err)
	}
	w.last[account] = res[0].Seq
	return eventlog.Record{Partition: p, Seq: res[0].Seq, Account: account, Data: data}
}

// fold is what a recorder holds that was given the log's records one by one.
func fold(t *testing.T, log *memlog.Log) []recorded {
	t.Helper()
	v := newRecorder(log.Partitions())
	roster := projections.NewRoster(log.Partitions())
	for p := range log.Partitions() {
		for rec, err := range log.Read(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			e, err := codec.Decode(rec.Data)
			if err != nil {
				t.Fatal(err)
			}
			v.Apply(projections.Place{Partition: p, Seq: rec.Seq, Account: roster.Ids(p).Add(rec.Account)}, &e)
		}
	}
	return v.state()
}

// running is a Runner that runs.
type running struct {
	*projections.Runner
	t      *testing.T
	view   *recorder
	cancel context.CancelFunc
	ended  chan error
}

// start starts a Runner with one recorder; change may change its config.
func start(t *testing.T, log *memlog.Log, change func(*projections.Config)) *running {
	t.Helper()
	v := newRecorder(log.Partitions())
	cfg := projections.Config{History: log, Roster: projections.NewRoster(log.Partitions()), Views: []projections.View{v}}
	if change != nil {
		change(&cfg)
	}
	r, err := projections.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Runner: r, t: t, view: v, cancel: cancel, ended: make(chan error, 1)}
	go func() { run.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-r.Ended()
	})
	return run
}

// stop ends the Runner and returns what Run returned.
func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}

// caughtUp waits until the Runner has caught up.
func (r *running) caughtUp() {
	r.t.Helper()
	select {
	case <-r.CaughtUp():
	case <-r.Ended():
		r.t.Fatalf("run ended before it had caught up: %v", <-r.ended)
	}
}

// reach waits until the view holds everything that the log holds.
func (r *running) reach(log *memlog.Log) {
	r.t.Helper()
	for p := range log.Partitions() {
		info, err := log.Info(r.t.Context(), p)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.WaitFor(r.t.Context(), p, info.Last); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestCatchUpThenLive(t *testing.T) {
	log := memlog.New(3)
	w := newWriter(t, log)
	w.write(500)
	r := start(t, log, nil)
	r.caughtUp()
	if got, want := r.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("caught up at %v, want %v", got, want)
	}
	w.write(300)
	r.reach(log)
	if got, want := r.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("live: %v, want %v", got, want)
	}
	for p := range 3 {
		info, _ := log.Info(t.Context(), p)
		if got := r.AsOf()[p]; got != info.Last {
			t.Errorf("as of %d in partition %d, want %d", got, p, info.Last)
		}
	}
	if s := r.Status(); s.Applied != 800 || len(s.Alarms) != 0 || s.CaughtUpAfter <= 0 || r.Behind() != 0 {
		t.Errorf("status: %+v, behind %d", s, r.Behind())
	}
	if err := r.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := r.Run(t.Context()); err == nil {
		t.Error("a Runner ran twice")
	}
}

func TestEmptyHistoryIsCaughtUp(t *testing.T) {
	start(t, memlog.New(2), nil).caughtUp()
}

// failing is a history that fails: Info at once, or Read and Follow after some
// records.
type failing struct {
	*memlog.Log
	after int // records before it fails; -1: Info fails
}

var errBroken = errors.New("the disk is gone")

func (f failing) Info(ctx context.Context, p int) (eventlog.Info, error) {
	if f.after < 0 {
		return eventlog.Info{}, errBroken
	}
	return f.Log.Info(ctx, p)
}

func (f failing) Read(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	return f.fail(f.Log.Read(ctx, p, after))
}

func (f failing) Follow(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	return f.fail(f.Log.Follow(ctx, p, after))
}

func (f failing) fail(records iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		n := 0
		for rec, err := range records {
			if n++; n > f.after {
				yield(eventlog.Record{}, errBroken)
				return
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// brokenFollow is a history that can be read but not followed.
type brokenFollow struct{ *memlog.Log }

func (f brokenFollow) Follow(context.Context, int, uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) { yield(eventlog.Record{}, errBroken) }
}

func TestAnErrorOfTheLogEndsRun(t *testing.T) {
	for _, after := range []int{-1, 0, 5} {
		log := memlog.New(2)
		newWriter(t, log).write(100)
		r := start(t, log, func(c *projections.Config) { c.History = failing{log, after} })
		if err := <-r.ended; !errors.Is(err, errBroken) {
			t.Errorf("after %d records: run ended with %v, want the log's error", after, err)
		}
		select {
		case <-r.CaughtUp():
			t.Errorf("after %d records: it says that it has caught up", after)
		default:
		}
	}
	log := memlog.New(1)
	newWriter(t, log).write(100)
	r := start(t, log, func(c *projections.Config) { c.Source = brokenFollow{log} })
	if err := <-r.ended; !errors.Is(err, errBroken) {
		t.Errorf("run ended with %v, want the follower's error", err)
	}
	if got, want := r.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("what had been read is %v, want %v", got, want)
	}
}

// TestTheLastRecordsAreMissing: they will never come, and nobody waits for them.
func TestTheLastRecordsAreMissing(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	w.write(20)
	for seq := uint64(18); seq <= 20; seq++ {
		log.Drop(0, seq)
	}
	r := start(t, log, nil)
	r.caughtUp()
	r.reach(log)
	s := r.Status()
	if len(s.FirstAlarms) != 1 || s.FirstAlarms[0].String() != "partition 0, sequence 20: records 18 to 20 of the stream are missing" {
		t.Errorf("alarms: %v", s.FirstAlarms)
	}
	w.one("acct-99")
	r.reach(log)
	if n := r.view.state()[0].events; n != 18 {
		t.Errorf("%d events were applied, want 18", n)
	}
}

func TestAlarms(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	for range 3 {
		w.one("acct-1") // 1 2 3
	}
	w.one("acct-2") // 4
	w.one("acct-2") // 5, taken out below
	w.one("acct-2") // 6
	w.versions["acct-1"] = 5
	w.one("acct-1")                             // 7: event 6 where event 4 should stand
	w.raw("acct-3", []byte("nothing readable")) // 8: of an account without events
	w.raw("acct-1", []byte{0x81, 0xa1, 'v'})    // 9
	w.raw("acct-4", encode(t, "acct-1", 1))     // 10: names another account
	w.one("acct-1")                             // 11: event 7, all right
	if !log.Drop(0, 5) {
		t.Fatal("record 5 is not there")
	}
	var mu sync.Mutex
	var got []string
	r := start(t, log, func(c *projections.Config) {
		c.OnAlarm = func(a projections.Alarm) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%d %s %q %d %d %v", a.Seq, a.Kind, a.Account, a.Want, a.Got, a.Err != nil))
		}
	})
	r.reach(log)
	want := []string{
		`6 gap in the stream "" 5 6 false`,
		`6 gap in an account's events "acct-2" 2 3 false`,
		`7 gap in an account's events "acct-1" 4 6 false`,
		`8 unreadable record "acct-3" 0 0 true`,
		`9 unreadable record "acct-1" 0 0 true`,
		`10 unreadable record "acct-4" 0 0 true`,
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, want) {
		t.Errorf("alarms:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s := r.Status()
	if len(s.FirstAlarms) != 6 || s.Alarms[projections.GapInStream] != 1 || s.Alarms[projections.GapInAccount] != 2 || s.Alarms[projections.Unreadable] != 3 {
		t.Errorf("status: %+v", s)
	}
	if got := s.FirstAlarms[0].String(); got != "partition 0, sequence 6: records 5 to 5 of the stream are missing" {
		t.Errorf("the first alarm reads %q", got)
	}
	if n := r.view.state()[0].events; n != 7 {
		t.Errorf("%d events were applied, want 7: all that can be read", n)
	}
	wantDamaged := []projections.Place{{Seq: 6, Account: 1}, {Seq: 7, Account: 0}, {Seq: 9, Account: 0}}
	if !slices.Equal(r.view.damaged, wantDamaged) {
		t.Errorf("damaged: %v, want %v", r.view.damaged, wantDamaged)
	}
}

// repeating yields every record twice, and now and then goes back.
type repeating struct{ *memlog.Log }

func (f repeating) Read(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	return repeat(f.Log.Read(ctx, p, after))
}

func (f repeating) Follow(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	return repeat(f.Log.Follow(ctx, p, after))
}

func repeat(records iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		var before []eventlog.Record
		for rec, err := range records {
			before = append(before, rec)
			for _, again := range before[max(0, len(before)-3):] {
				if !yield(again, err) || !yield(rec, err) {
					return
				}
			}
		}
	}
}

func TestRecordsThatComeAgainAreDropped(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	w.write(50)
	r := start(t, log, func(c *projections.Config) { c.History = repeating{log} })
	r.caughtUp()
	w.write(50)
	r.reach(log)
	// The newest record comes before the two old ones are repeated, so there
	// is no gap.
	if got, want := r.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := r.Status(); s.Repeated == 0 || s.Applied != 100 {
		t.Errorf("repeated %d, applied %d", s.Repeated, s.Applied)
	}
}

func TestConfigIsChecked(t *testing.T) {
	log := memlog.New(2)
	v := newRecorder(2)
	good := projections.Config{History: log, Roster: projections.NewRoster(2), Views: []projections.View{v}}
	for name, change := range map[string]func(*projections.Config){
		"no history":      func(c *projections.Config) { c.History = nil },
		"no roster":       func(c *projections.Config) { c.Roster = nil },
		"no view":         func(c *projections.Config) { c.Views = nil },
		"another roster":  func(c *projections.Config) { c.Roster = projections.NewRoster(3) },
		"two of one name": func(c *projections.Config) { c.Views = []projections.View{v, newRecorder(2)} },
	} {
		cfg := good
		change(&cfg)
		if _, err := projections.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := projections.New(good); err != nil {
		t.Error(err)
	}
}

func TestRate(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	r := start(t, log, nil)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for r.Status().PerSecond == 0 {
		select {
		case <-tick.C:
			w.write(10)
		case <-deadline:
			t.Fatal("no rate was measured")
		}
	}
}
