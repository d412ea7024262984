package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// promise is one answer that a caller got.
type promise struct {
	ID      string `json:"-"`
	Account string `json:"account"`
	Trigger string `json:"trigger"`
	Outcome string `json:"outcome"`
	From    string `json:"from"`
	To      string `json:"to"`
	Version uint64 `json:"version"`
}

// ledger is everything that was promised, and every id that was sent.
type ledger struct {
	mu       sync.Mutex
	promises []promise
	next     int
}

func (l *ledger) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return fmt.Sprintf("t-%07d", l.next)
}

func (l *ledger) add(p promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.promises = append(l.promises, p)
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.promises)
}

// storyline is what a connector may say, in an order that mostly makes sense:
// each account walks through it at its own pace and now and then skips about.
var storyline = []string{
	"start", "qr_received", "qr_received", "qr_scanned", "sync_completed", "connection_ready", "rate_limited",
	"connection_ready", "connection_lost", "start", "reconnect_success", "probe_failed", "probe_ok", "logout", "start",
	"connection_ready", "stop", "qr_scanned",
}

// load sends from callers goroutines over accounts accounts until stop is
// closed or the server goes away, and enters every answer into the ledger.
func load(t testing.TB, url string, l *ledger, callers, accounts int, seed uint64, stop <-chan struct{}) {
	t.Helper()
	nc, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		t.Logf("the server was gone before a caller was there: %v", err)
		return // nothing is promised; the tests demand that something was in the end
	}
	defer nc.Close()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			for step := 0; ; step++ {
				select {
				case <-stop:
					return
				default:
				}
				account := fmt.Sprintf("acct-%04d", rnd.IntN(accounts))
				name := storyline[(step+rnd.IntN(3))%len(storyline)]
				if !request(nc, l, account, name) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// request sends one trigger; false means that the server is gone.
func request(nc *nats.Conn, l *ledger, account, name string) bool {
	id := l.id()
	body, _ := json.Marshal(map[string]any{"id": id, "account": account, "trigger": name, "source": "load"})
	m, err := nc.Request("muster.cmd."+account, body, 10*time.Second)
	if err != nil {
		return false // not promised: it may be stored or not
	}
	p := promise{ID: id}
	if m.Header.Get("Nats-Service-Error-Code") != "" {
		return true // refused, and so not promised
	}
	if json.Unmarshal(m.Data, &p) == nil {
		l.add(p)
	}
	return true
}

// stored reads every stream with an ordinary client and returns the events of
// each account in the order of its stream, with their bytes.
func stored(t testing.TB, p *proc) map[string][]storedEvent { return storedOf(t, p, partitions) }

// stored1 is stored for a server with one partition.
func stored1(t testing.TB, p *proc) map[string][]storedEvent { return storedOf(t, p, 1) }

func storedOf(t testing.TB, p *proc, partitions int) map[string][]storedEvent {
	t.Helper()
	js, err := jetstream.New(p.connect())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]storedEvent{}
	names := js.StreamNames(t.Context(), jetstream.WithStreamListSubject("muster.ev.>"))
	for name := range names.Name() {
		readStream(t, js, name, partitions, all)
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// storedEvent is one record as it lies in its stream.
type storedEvent struct {
	domain.Event
	seq   uint64
	bytes []byte
}

func readStream(t testing.TB, js jetstream.JetStream, name string, partitions int, all map[string][]storedEvent) {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	want := s.CachedInfo().State.Msgs
	if want == 0 {
		return
	}
	c, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(10000))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	for range want {
		m, err := it.Next(jetstream.NextMaxWait(3 * time.Second))
		if errors.Is(err, nats.ErrTimeout) {
			return // the server counts records that it cannot read; what is missing, the checks find
		}
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		e, err := codec.Decode(m.Data())
		if err != nil {
			t.Fatalf("%s at %d: %v", name, meta.Sequence.Stream, err)
		}
		if sub := eventlog.Subject(eventlog.Partition(string(e.Account), partitions), string(e.Account)); sub != m.Subject() {
			t.Fatalf("account %q lies under %s, want %s", e.Account, m.Subject(), sub)
		}
		all[string(e.Account)] = append(all[string(e.Account)], storedEvent{e, meta.Sequence.Stream, m.Data()})
	}
}

// partitions is the partition count of a server with default settings.
const partitions = 4

// check compares the log with what was promised and with itself: versions
// without a gap, the chain of hashes whole, no id twice, every promise kept.
func (l *ledger) check(t testing.TB, all map[string][]storedEvent) {
	t.Helper()
	for id, events := range all {
		var prev [16]byte
		seen := map[string]bool{}
		for i, e := range events {
			if e.Version != uint64(i+1) {
				t.Fatalf("account %s: event %d has version %d", id, i+1, e.Version)
			}
			if e.Prev != prev {
				t.Fatalf("account %s: the chain breaks at version %d", id, e.Version)
			}
			if e.ID != "" && seen[e.ID] {
				t.Fatalf("account %s: id %s is stored twice", id, e.ID)
			}
			seen[e.ID] = true
			prev = codec.Hash(e.bytes)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.promises {
		l.checkPromise(t, p, all[p.Account])
	}
}

func (l *ledger) checkPromise(t testing.TB, p promise, events []storedEvent) {
	t.Helper()
	o, ok := domain.ParseOutcome(p.Outcome)
	if !ok {
		t.Fatalf("an answer has the outcome %q", p.Outcome)
	}
	if !o.Appended() {
		t.Fatalf("trigger %s of %s got %s: the load sends nothing that deserves it", p.ID, p.Account, p.Outcome)
	}
	if p.Version == 0 || p.Version > uint64(len(events)) {
		t.Fatalf("LOST: %s of %s was acknowledged as version %d, the log ends at %d", p.ID, p.Account, p.Version, len(events))
	}
	e := events[p.Version-1]
	if e.ID != p.ID || e.Trigger != p.Trigger || e.Outcome != o || e.From != p.From || e.To != p.To {
		t.Fatalf("%s of %s: answered %+v, stored %+v", p.ID, p.Account, p, e.Event)
	}
}

// fold is the digest of a plain fold of the stored events.
func fold(all map[string][]storedEvent) string {
	accounts := make([]*domain.Account, 0, len(all))
	for _, events := range all {
		var a *domain.Account
		for i := range events {
			a = domain.Evolve(a, &events[i].Event)
		}
		accounts = append(accounts, a)
	}
	return domain.Digest(accounts)
}

// sameDigest waits until the server's digest is that of a plain fold of its log.
// Deadlines that have come due meanwhile may add events between the two looks;
// a digest that is really another one stays so.
func sameDigest(t testing.TB, p *proc, partitions int) {
	t.Helper()
	var got, want string
	var accounts, known int
	poll(t, 20*time.Second, func() bool {
		all := storedOf(t, p, partitions)
		got, accounts = p.digest()
		want, known = fold(all), len(all)
		return got == want && accounts == known
	}, func() string {
		return fmt.Sprintf("the server's digest is %s over %d accounts, the log's fold %s over %d", got, accounts, want, known)
	})
}
