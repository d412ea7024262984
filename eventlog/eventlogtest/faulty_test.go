package eventlogtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestFaultyWithoutFaultsIsTheLog(t *testing.T) {
	eventlogtest.Run(t, func(_ *testing.T, n int) eventlog.Log {
		return eventlogtest.Faulty(memlog.New(n), eventlogtest.Script())
	})
	eventlogtest.RunBlobs(t, func(*testing.T) eventlog.Blobs {
		return eventlogtest.FaultyBlobs(new(memlog.Blobs), eventlogtest.Script())
	})
}

func TestFaultsArePrintable(t *testing.T) {
	for want, f := range map[string]eventlogtest.Fault{
		"append 3 is torn after 2: it is not known whether the record was stored: injected fault": {Op: "append", Nth: 3, Do: eventlogtest.Tear, After: 2},
		"read fails: EOF":                        {Op: "read", Do: eventlogtest.Fail, Err: io.EOF},
		"follow 1 is delayed":                    {Op: "follow", Nth: 1, Do: eventlogtest.Delay},
		"put 2 loses its answer: injected fault": {Op: "put", Nth: 2, Do: eventlogtest.LoseAnswer},
	} {
		if got := f.String(); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}

// A writer that resolves unknown appends by reading back stores everything
// once, whichever append is hit and however.
func TestEveryAppendFaultIsRecoverable(t *testing.T) {
	for _, action := range []eventlogtest.Action{eventlogtest.Fail, eventlogtest.LoseAnswer, eventlogtest.Tear} {
		for n := 1; n <= 5; n++ {
			faults := eventlogtest.Script(eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: n, Do: action, After: 1})
			mem := memlog.New(1)
			log := eventlogtest.Faulty(mem, faults)
			for i := range 5 {
				appendSurely(t, log, fmt.Sprint("one", i), fmt.Sprint("two", i))
			}
			if fired := faults.Fired(); len(fired) != 1 || !strings.HasPrefix(fired[0], fmt.Sprintf("append %d ", n)) {
				t.Errorf("fired %q", fired)
			}
			var got []string
			for _, r := range eventlogtest.MustCollect(t, mem.Read(t.Context(), 0, 0)) {
				got = append(got, string(r.Data))
			}
			slices.Sort(got)
			want := []string{"one0", "one1", "one2", "one3", "one4", "two0", "two1", "two2", "two3", "two4"}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the log holds %q", faults.Fired(), got)
			}
		}
	}
}

// appendSurely appends one record to each of two accounts, and after an
// unknown outcome looks before it tries again.
func appendSurely(t *testing.T, log eventlog.Log, data ...string) {
	t.Helper()
	for i, d := range data {
		account := string(rune('a' + i))
		for {
			last, err := log.Last(t.Context(), account)
			if err != nil && !errors.Is(err, eventlog.ErrNotFound) {
				t.Fatal(err)
			}
			if string(last.Data) == d {
				break
			}
			r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: account, Expect: last.Seq, Data: []byte(d)}})[0]
			if class := eventlogtest.Class(r); class != "stored" && class != "unknown" {
				t.Fatalf("append: %v", r.Err)
			}
		}
	}
}

func TestReadFaults(t *testing.T) {
	mem := memlog.New(1)
	for i := range 4 {
		eventlogtest.Store(t, mem, string(rune('a'+i)), 0, "x")
	}
	broken := errors.New("broken")
	faults := eventlogtest.Script(
		eventlogtest.Fault{Op: eventlogtest.OpRead, Nth: 1, Do: eventlogtest.Fail, Err: broken},
		eventlogtest.Fault{Op: eventlogtest.OpRead, Nth: 2, Do: eventlogtest.Tear, After: 3, Err: broken},
		eventlogtest.Fault{Op: eventlogtest.OpLast, Do: eventlogtest.Fail},
	)
	log := eventlogtest.Faulty(mem, faults)
	for call, want := range []int{0, 3, 4} {
		records, err := eventlogtest.Collect(log.Read(t.Context(), 0, 0))
		if len(records) != want || errors.Is(err, broken) != (call < 2) {
			t.Errorf("read %d: %d records, %v", call+1, len(records), err)
		}
	}
	if _, err := log.Last(t.Context(), "a"); !errors.Is(err, eventlogtest.ErrInjected) {
		t.Errorf("last: %v", err)
	}
	if faults.Calls(eventlogtest.OpRead) != 3 {
		t.Errorf("%d reads counted", faults.Calls(eventlogtest.OpRead))
	}
}

func TestBlobFaults(t *testing.T) {
	blobs := eventlogtest.FaultyBlobs(new(memlog.Blobs), eventlogtest.Script(
		eventlogtest.Fault{Op: eventlogtest.OpPut, Nth: 1, Do: eventlogtest.Tear, After: 3},
		eventlogtest.Fault{Op: eventlogtest.OpGet, Nth: 2, Do: eventlogtest.Tear, After: 2, Err: io.ErrUnexpectedEOF},
		eventlogtest.Fault{Op: eventlogtest.OpDelete, Nth: 1, Do: eventlogtest.Fail},
	))
	if err := blobs.Put(t.Context(), "b", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	for call, want := range []struct {
		data string
		err  error
	}{{"con", nil}, {"co", io.ErrUnexpectedEOF}} {
		r, err := blobs.Get(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); string(data) != want.data || !errors.Is(err, want.err) {
			t.Errorf("get %d: %q, %v", call+1, data, err)
		}
	}
	if err := blobs.Delete(t.Context(), "b"); !errors.Is(err, eventlogtest.ErrInjected) {
		t.Errorf("delete: %v", err)
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		log := eventlogtest.Faulty(memlog.New(1), eventlogtest.Script(
			eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 1, Do: eventlogtest.Delay, For: 10 * time.Second},
			eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 2, Do: eventlogtest.Delay, Gate: gate},
			eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 3, Do: eventlogtest.Delay, Gate: make(chan struct{})},
		))
		begin := time.Now()
		eventlogtest.Store(t, log, "a", 0, "x")
		if d := time.Since(begin); d != 10*time.Second {
			t.Errorf("delayed by %v, want 10 s", d)
		}
		stored := make(chan struct{})
		go func() {
			defer close(stored)
			log.Append(t.Context(), 0, []eventlog.Entry{{Account: "b"}})
		}()
		synctest.Wait()
		if _, err := log.Last(t.Context(), "b"); !errors.Is(err, eventlog.ErrNotFound) {
			t.Errorf("before the gate opens: %v", err)
		}
		close(gate)
		<-stored
		if _, err := log.Last(t.Context(), "b"); err != nil {
			t.Errorf("after the gate opened: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := eventlogtest.Classes(log.Append(ctx, 0, []eventlog.Entry{{Account: "c"}})); got[0] != "unknown" {
			t.Errorf("an append whose context ended at the gate: %q", got)
		}
	})
}
