package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 20 * time.Second

func TestPositions(t *testing.T) {
	for text, want := range map[string]string{"": "", "0:12,1:7": "0:12,1:7", "3:0": "3:0", "1:7,0:12": "0:12,1:7", "99:9223372036854775807": "99:9223372036854775807"} {
		p, err := ParsePosition(text)
		if err != nil || p.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, p, err, want)
		}
	}
	for _, bad := range []string{",", "0", "0:", ":1", "0:1,", "0:-1", "-1:0", "100:1", "0:1,0:1", "0:9223372036854775808", " 0:1", "0:1 ", "a:b"} {
		if p, err := ParsePosition(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, p)
		}
	}
}

func TestRingKeepsTheLatest(t *testing.T) {
	r := &ring{keep: 4}
	if _, ok := r.take(0, 10, nil); ok {
		t.Error("a ring that has not begun gives something")
	}
	r.begin(10)
	for seq := uint64(11); seq <= 17; seq++ {
		r.put(&Event{Seq: seq})
	}
	for _, c := range []struct {
		after uint64
		most  int
		want  []uint64
		ok    bool
	}{
		{9, 10, nil, false}, {12, 10, nil, false}, {13, 10, []uint64{14, 15, 16, 17}, true}, {13, 2, []uint64{14, 15}, true},
		{14, 2, []uint64{15, 16}, true}, {15, 10, []uint64{16, 17}, true}, {16, 10, []uint64{17}, true}, {17, 10, nil, true}, {99, 10, nil, true},
	} {
		events, ok := r.take(c.after, c.most, nil)
		var got []uint64
		for _, e := range events {
			got = append(got, e.Seq)
		}
		if ok != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("behind %d, %d at most: %v, %v; want %v, %v", c.after, c.most, got, ok, c.want, c.ok)
		}
	}
}

// writer appends events of one account for each partition.
type writer struct {
	t    *testing.T
	log  *memlog.Log
	ids  []string // by partition
	last []uint64
}

func newWriter(t *testing.T, partitions int) *writer {
	t.Helper()
	w := &writer{t: t, log: memlog.New(partitions), ids: make([]string, partitions), last: make([]uint64, partitions)}
	t.Cleanup(func() { _ = w.log.Close() })
	for i, found := 0, 0; found < partitions; i++ {
		id := fmt.Sprint("acct-", i)
		if p := eventlog.Partition(id, partitions); w.ids[p] == "" {
			w.ids[p] = id
			found++
		}
	}
	return w
}

// write appends n events to a partition.
func (w *writer) write(p, n int) {
	w.t.Helper()
	for range n {
		e := domain.Event{
			Version: w.last[p] + 1, Account: domain.AccountID(w.ids[p]), Kind: domain.KindSession, Trigger: "start", Outcome: domain.Noop,
			From: "RUNNING", To: "RUNNING", At: 1, Recorded: 1,
		}
		data, err := codec.Encode(&e)
		if err != nil {
			w.t.Fatal(err)
		}
		r := w.log.Append(w.t.Context(), p, []eventlog.Entry{{Account: w.ids[p], Expect: w.last[p], Data: data}})
		if r[0].Err != nil {
			w.t.Fatal(r[0].Err)
		}
		w.last[p] = r[0].Seq
	}
}

// collect reads until n events have come, and wants each partition's to be
// without a gap behind the position where they begin.
func collect(t *testing.T, r *Reader, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	at := r.Position()
	for n > 0 {
		events, err := r.Next(ctx, time.Minute)
		if err != nil {
			t.Fatalf("%d events are missing: %v", n, err)
		}
		for _, e := range events {
			if e.Seq != at[e.Partition]+1 {
				t.Fatalf("partition %d goes from %d to %d", e.Partition, at[e.Partition], e.Seq)
			}
			at[e.Partition] = e.Seq
		}
		n -= len(events)
	}
	if n < 0 {
		t.Fatalf("%d events too many", -n)
	}
}

func TestReadersGetEachEventOnceFromAnyPosition(t *testing.T) {
	w := newWriter(t, 3)
	h := New(Config{Log: w.log, Keep: 16})
	defer h.Close()
	for p := range 3 {
		w.write(p, 100*(p+1))
	}
	fresh, err := h.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	for _, c := range []struct {
		from string
		want int // of the 600 and of what was written since
	}{{"0:0,1:0,2:0", 600}, {"0:100,1:200,2:300", 5}, {"0:99,1:150,2:3", 358}, {"0:90", 19}, {"1:0", 200}} {
		p, err := ParsePosition(c.from)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.Read(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		collect(t, r, c.want)
		w.write(0, 3)
		w.write(2, 2)
		collect(t, r, 5)
		collect(t, fresh, 5)
		r.Close()
		if got := h.Readers(); got != 1 {
			t.Errorf("%d readers after one has gone, want 1", got)
		}
	}
}

func TestPositionsThatTheHistoryDoesNotHave(t *testing.T) {
	w := newWriter(t, 2)
	w.write(0, 5)
	h := New(Config{Log: w.log, Readers: 1})
	defer h.Close()
	for _, p := range []Position{{0: 6}, {1: 1}, {2: 0}} {
		if _, err := h.Read(t.Context(), p); !errors.Is(err, ErrPosition) {
			t.Errorf("%v: %v", p, err)
		}
	}
	r, err := h.Read(t.Context(), Position{0: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Read(t.Context(), nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("a second reader: %v", err)
	}
	r.Close()
	r.Close() // counts once
	if r, err = h.Read(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestAReaderThatFallsBehindIsToldSoAndLosesNothing(t *testing.T) {
	w := newWriter(t, 1)
	h := New(Config{Log: w.log, Keep: 8})
	defer h.Close()
	slow, err := h.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	quick, err := h.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer quick.Close()
	w.write(0, 1)
	collect(t, slow, 1)
	collect(t, quick, 1)
	for !slow.live[0] { // who still reads from the log cannot be too slow
		if _, err := slow.Next(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		w.write(0, 1)
		collect(t, quick, 1)
	}
	if _, err := slow.Next(t.Context(), time.Minute); !errors.Is(err, ErrTooSlow) {
		t.Fatalf("the slow one gets %v", err)
	}
	again, err := h.Read(t.Context(), slow.Position())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	collect(t, again, 20)
}

func TestReadersEndWithTheHub(t *testing.T) {
	w := newWriter(t, 2)
	h := New(Config{Log: w.log})
	r, err := h.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if events, err := r.Next(t.Context(), time.Millisecond); len(events) != 0 || err != nil {
		t.Errorf("a quiet log gives %v, %v", events, err)
	}
	ended := make(chan error, 1)
	go func() { _, err := r.Next(context.Background(), time.Hour); ended <- err }()
	h.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the reader ends with %v", err)
		}
	case <-time.After(within):
		t.Fatal("the reader waits on")
	}
	if _, err := h.Read(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a reader of a closed hub: %v", err)
	}
	New(Config{Log: w.log}).Close() // one that nobody read
}
