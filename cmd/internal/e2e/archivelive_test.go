package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections/stats"
)

// archiveEnv is how many triggers TestArchiveOfALiveFleet sends, if not 5000.
const archiveEnv = "MUSTER_E2E_ARCHIVE_TRIGGERS"

// feeder sends a trace, keeping the order of each account. It outlives servers
// that are killed, and stands still when it is told to.
type feeder struct {
	t    *testing.T
	addr string

	gate sync.RWMutex // held for reading by each trigger on its way
	mu   sync.Mutex
	sent int
}

const feeders = 16

// feed sends all lines and returns.
func (f *feeder) feed(lines [][]byte) {
	byAccount := make([][][]byte, feeders)
	for _, line := range lines {
		var l struct{ Account string }
		if err := json.Unmarshal(line, &l); err != nil {
			f.t.Errorf("%v: %s", err, line)
			return
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(l.Account))
		n := h.Sum32() % feeders
		byAccount[n] = append(byAccount[n], line)
	}
	var wg sync.WaitGroup
	for _, mine := range byAccount {
		wg.Go(func() {
			var nc *nats.Conn
			for _, line := range mine {
				nc = f.send(nc, line)
			}
			if nc != nil {
				nc.Close()
			}
		})
	}
	wg.Wait()
}

// send sends one line until it is answered, and returns the connection to go on with.
func (f *feeder) send(nc *nats.Conn, line []byte) *nats.Conn {
	f.gate.RLock()
	defer f.gate.RUnlock()
	var l struct{ Account string }
	_ = json.Unmarshal(line, &l) // it was read before
	msg := nats.NewMsg("muster.cmd." + eventlog.Token(l.Account))
	msg.Data = line
	last := ""
	poll(f.t, 2*time.Minute, func() bool {
		if nc == nil {
			var err error
			if nc, err = nats.Connect("nats://"+f.addr, nats.NoReconnect()); err != nil {
				nc = nil
				return false
			}
		}
		m, err := nc.RequestMsg(msg, 20*time.Second)
		if err != nil {
			nc.Close()
			nc, last = nil, err.Error()
			return false
		}
		last = fmt.Sprintf("%v %s", m.Header, m.Data)
		code := m.Header.Get("Nats-Service-Error-Code")
		return code == "" || code != "503" && code != "429"
	}, func() string { return fmt.Sprintf("a trigger is not answered: %s: %s", last, line) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent++
	return nc
}

// reached waits until so many were sent.
func (f *feeder) reached(n int) {
	f.t.Helper()
	poll(f.t, 10*time.Minute, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.sent >= n
	}, func() string { return fmt.Sprintf("%d triggers were not sent", n) })
}

// instant is the fleet at a time.
type instant struct {
	at    time.Time
	stats stats.Stats
}

// look stops the feeder and records the fleet at a time around which nothing is
// recorded: the figures are the same before and behind it.
func (f *feeder) look(p *proc) (in instant) {
	f.t.Helper()
	f.gate.Lock()
	defer f.gate.Unlock()
	quiet := time.NewTicker(60 * time.Millisecond)
	defer quiet.Stop()
	poll(f.t, time.Minute, func() bool {
		in.stats = liveStats(f.t, p)
		in.at = time.Now()
		<-quiet.C
		<-quiet.C
		return reflect.DeepEqual(liveStats(f.t, p).AsOf, in.stats.AsOf)
	}, func() string { return "the fleet does not come to rest" })
	return in
}

// atRest says whether the figures are those of all that was recorded until then:
// an event of that moment may have been on its way to the disk.
func (in *instant) atRest(all map[string][]storedEvent) bool {
	at := in.at.UnixNano()
	for account, events := range all {
		last := in.stats.AsOf[eventlog.Partition(account, partitions)]
		for _, e := range events {
			if (e.Recorded <= at) != (e.seq <= last) {
				return false
			}
		}
	}
	return true
}

// liveStats are the figures of all that is stored.
func liveStats(t *testing.T, p *proc) (s stats.Stats) {
	t.Helper()
	var d struct {
		AsOf json.RawMessage `json:"as_of"`
	}
	server := "nats://" + p.nats
	askJSON(t, 0, &d, "digest", "--server", server)
	askJSON(t, 0, &s, "stats", "--wait-for", string(d.AsOf), "--server", server)
	return s
}

// sameFigures compares all figures of two objects that do not depend on the
// moment at which they were asked for.
func sameFigures(t *testing.T, what string, got, want stats.Stats) {
	t.Helper()
	for _, s := range []*stats.Stats{&got, &want} {
		s.Transitions.LastMinute = 0
		s.States, s.Classes, s.ByMachine = positive(s.States), positive(s.Classes), positiveEach(s.ByMachine)
		// These lean on how long the open ones have waited.
		for _, e := range []*stats.Episodes{&s.TimeToRunning.Onboarding, &s.TimeToRunning.Recovery} {
			e.MedianCI = [2]*float64{}
		}
	}
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s: the replay gives\n%s\nthe server gave\n%s", what, g, w)
	}
}

// TestArchiveOfALiveFleet feeds a server a simulated fleet, deadlines included,
// archives it meanwhile and kills it twice. The replay of the archive, the server
// and a plain fold of the streams agree on the digest and on every figure, at the
// end and at ten times in between.
func TestArchiveOfALiveFleet(t *testing.T) {
	dir, arch, addr := t.TempDir(), filepath.Join(t.TempDir(), "archive"), freeAddr(t)
	seed := uint64(time.Now().UnixNano())
	lines := pastTrace(t, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	serveAgain := func() *proc {
		p := run(t, addr, "--nats-listen", addr, "--data", dir, "--archive", arch, "--log-transitions=false", "--recover-after", "24h")
		p.waitReady()
		return p
	}
	p := serveAgain()
	f := &feeder{t: t, addr: addr}
	fed := make(chan struct{})
	go func() { defer close(fed); f.feed(lines) }()
	var seen []instant
	kills := []int{len(lines) / 3, 2 * len(lines) / 3}
	looks := make([]int, 10)
	for i := range looks {
		looks[i] = 1 + rnd.IntN(len(lines))
	}
	slices.Sort(looks)
	for _, n := range looks {
		for len(kills) > 0 && n >= kills[0] {
			f.reached(kills[0])
			p.kill()
			var v offline.Verified
			askJSON(t, 0, &v, "verify", arch)
			p, kills = serveAgain(), kills[1:]
		}
		f.reached(n)
		seen = append(seen, f.look(p))
	}
	for range kills {
		p.kill()
		p = serveAgain()
	}
	<-fed
	compareLive(t, p, arch)
	compared, all := 0, stored(t, p)
	for _, in := range seen {
		if !in.atRest(all) {
			continue
		}
		compared++
		var got stats.Stats
		askJSON(t, 0, &got, "replay", arch, "--until", in.at.Format(time.RFC3339Nano))
		sameFigures(t, "at "+in.at.Format(time.RFC3339Nano), got, in.stats)
	}
	if compared < len(seen)/2 {
		t.Errorf("at %d of %d times only was nothing on its way", compared, len(seen))
	}
	p.stop()
	var v offline.Verified
	askJSON(t, 0, &v, "verify", arch, "--data", dir)
	t.Logf("%d triggers became %d records; %d times were compared", len(lines), v.Records, compared)
}

// compareLive compares the server, its archive and a plain fold of its streams
// as of one position.
func compareLive(t *testing.T, p *proc, arch string) {
	t.Helper()
	server := "nats://" + p.nats
	var live struct {
		Digest string
		AsOf   map[int]uint64 `json:"as_of"`
	}
	var figures stats.Stats
	poll(t, time.Minute, func() bool {
		askJSON(t, 0, &live, "digest", "--server", server)
		text, _ := json.Marshal(live.AsOf)
		askJSON(t, 0, &figures, "stats", "--wait-for", string(text), "--server", server)
		return maps.Equal(figures.AsOf, live.AsOf)
	}, func() string { return "the fleet does not come to rest" })
	all := storedUntil(t, p, live.AsOf)
	if got := fold(all); got != live.Digest {
		t.Errorf("the server's digest is %s, that of a plain fold %s", live.Digest, got)
	}
	own := 0
	for _, events := range all {
		for _, e := range events {
			if e.Source == "muster" {
				own++
			}
		}
	}
	if own == 0 {
		t.Error("no deadline has fired")
	}
	p.archived(live.AsOf)
	var until []string
	for partition, seq := range live.AsOf {
		until = append(until, fmt.Sprintf("%d=%d", partition, seq))
	}
	var got struct {
		stats.Stats
		Digest string
		Events int
	}
	askJSON(t, 0, &got, "replay", arch, "--until", strings.Join(until, ","))
	if got.Digest != live.Digest {
		t.Errorf("the replay's digest is %s, the server's %s", got.Digest, live.Digest)
	}
	sameFigures(t, "at the end", got.Stats, figures)
	n := count(all)
	if got.Transitions.Total != n.total || !reflect.DeepEqual(got.Transitions.Edges, n.edges) || !reflect.DeepEqual(got.Outcomes, n.outcomes) ||
		got.LoggedOut.Total != n.loggedOut || !reflect.DeepEqual(got.LoggedOut.ByReason, n.reasons) {
		t.Errorf("a plain count gives %+v, the replay %+v", n, got.Stats)
	}
	t.Logf("%d events, %d of Muster's own", got.Events, own)
}

// storedUntil is what the streams hold up to a position.
func storedUntil(t *testing.T, p *proc, asOf map[int]uint64) map[string][]storedEvent {
	t.Helper()
	all := stored(t, p)
	for account, events := range all {
		last := asOf[eventlog.Partition(account, partitions)]
		n := len(events)
		for n > 0 && events[n-1].seq > last {
			n--
		}
		if all[account] = events[:n]; n == 0 {
			delete(all, account)
		}
	}
	return all
}

// pastTrace is the life of a simulated fleet, long enough ago that all of its
// deadlines are overdue when it is sent.
func pastTrace(t *testing.T, seed uint64) (lines [][]byte) {
	t.Helper()
	total := 5000
	if text := os.Getenv(archiveEnv); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", archiveEnv, err)
		}
	}
	t.Logf("seed %d, %d triggers", seed, total)
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	begin := time.Now().Add(-90 * 24 * time.Hour).UTC().Truncate(time.Second)
	_, stderr, code := muster(t, "", "simulate", "--fast", "--seed", fmt.Sprint(seed), "--accounts", fmt.Sprint(max(50, total/50)),
		"--start", begin.Format(time.RFC3339), "--for", "2000h", "--count", fmt.Sprint(total), "--out", file)
	if code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		lines = append(lines, bytes.Clone(sc.Bytes()))
	}
	return lines
}
