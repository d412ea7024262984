package inbox

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// park parks n messages of one account, with bodies bad-1 to bad-n.
func (r *rig) park(n int) {
	r.t.Helper()
	for i := 1; i <= n; i++ {
		r.publish("muster.in.a", fmt.Sprint("bad-", i), nil)
	}
	_, stop := r.read(nil)
	r.empty()
	stop()
}

func bodies(list []Parked) []string {
	var out []string
	for _, p := range list {
		out = append(out, string(p.Body))
	}
	return out
}

func TestListPagesNewestFirst(t *testing.T) {
	r := newRig(t, Limits{})
	if page, err := r.store.List(t.Context(), 0, 10); err != nil || len(page.Parked) != 0 || page.Next != 0 {
		t.Fatalf("an empty park: %+v, %v", page, err)
	}
	r.park(10)
	all := r.parked()
	if err := r.store.Drop(t.Context(), all[4].ID); err != nil { // bad-6
		t.Fatal(err)
	}
	var got []string
	before := uint64(0)
	for pages := 1; ; pages++ {
		page, err := r.store.List(t.Context(), before, 4)
		if err != nil {
			t.Fatal(err)
		}
		if page.Total != 9 {
			t.Errorf("%d in all", page.Total)
		}
		got = append(got, bodies(page.Parked)...)
		if before = page.Next; before == 0 {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	want := []string{"bad-10", "bad-9", "bad-8", "bad-7", "bad-5", "bad-4", "bad-3", "bad-2", "bad-1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if p := all[0]; p.Account != "a" || p.Subject != "muster.in.a" || !strings.HasPrefix(p.Origin, "in#10@") || p.Stored.After(p.At) || time.Since(p.Stored) > time.Minute {
		t.Errorf("%+v", p)
	}
}

func TestRetryAndDrop(t *testing.T) {
	r := newRig(t, Limits{})
	r.tell("a", 1, 3)
	// While the account is damaged nothing of it is judged.
	_, stop := r.read(func(c *Config) { c.Judge = judgeFunc(damagedOnly) })
	r.empty()
	stop()
	parked := r.parked()
	if len(parked) != 3 {
		t.Fatalf("%d are parked", len(parked))
	}
	if err := r.store.Drop(t.Context(), parked[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Retry(t.Context(), parked[2].ID); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{r.store.Drop(t.Context(), parked[0].ID), r.store.Retry(t.Context(), parked[0].ID), r.store.Retry(t.Context(), 999)} {
		if !errors.Is(err, ErrNotParked) {
			t.Errorf("what is not parked: %v", err)
		}
	}
	r.read(nil)
	r.empty()
	h := r.history("a")
	if len(h) != 1 || h[0].Seq != 1 || h[0].ID != parked[2].Origin || h[0].At != parked[2].Stored.UnixNano() {
		t.Errorf("the retried one must keep its id %s and time: %+v", parked[2].Origin, h)
	}
	if left := r.parked(); len(left) != 1 || left[0].ID != parked[1].ID {
		t.Errorf("left: %+v", left)
	}
}

// judgeFunc is a judge that is a function.
type judgeFunc func(t domain.Trigger, done func(command.Answer)) error

func (f judgeFunc) Submit(t domain.Trigger, done func(command.Answer)) error { return f(t, done) }

func damagedOnly(t domain.Trigger, done func(command.Answer)) error {
	done(command.Answer{Err: &command.DamagedError{Account: t.Account, Reason: "a hole"}})
	return nil
}

func TestRetryAllAndDropAll(t *testing.T) {
	r := newRig(t, Limits{})
	const n = 25
	r.tell("a", 1, n)
	_, stop := r.read(func(c *Config) { c.Judge = judgeFunc(damagedOnly) })
	r.empty()
	stop()
	done, upTo0, rounds := 0, uint64(0), 0
	for {
		got, again, err := r.store.RetryAll(t.Context(), upTo0, 10)
		if err != nil {
			t.Fatal(err)
		}
		done, upTo0, rounds = done+got, again, rounds+1
		if again == 0 {
			break
		}
	}
	if done != n || rounds != 3 {
		t.Errorf("%d retried in %d rounds", done, rounds)
	}
	_, stop = r.read(nil)
	r.empty()
	stop()
	if got := r.seqs("a"); !slices.Equal(got, upTo(n)) {
		t.Errorf("retried in the order in which they came: %v", got)
	}
	r.park(7)
	if got, err := r.store.DropAll(t.Context()); err != nil || got != 7 {
		t.Errorf("%d dropped, %v", got, err)
	}
	if got, err := r.store.DropAll(t.Context()); err != nil || got != 0 {
		t.Errorf("%d dropped of none, %v", got, err)
	}
	if len(r.parked()) != 0 {
		t.Error("something is left")
	}
}

func TestHold(t *testing.T) {
	r := newRig(t, Limits{})
	var wg sync.WaitGroup
	defer wg.Wait()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	h := Holder{Store: r.store, Logger: logger, Every: time.Millisecond}
	select {
	case <-h.Hold(t.Context(), wg.Go):
	default:
		t.Fatal("nothing waits, and yet it is held")
	}
	r.tell("a", 1, 20)
	held := h.Hold(t.Context(), wg.Go)
	select {
	case <-held:
		t.Fatal("20 messages wait, and nobody reads")
	case <-time.After(20 * time.Millisecond):
	}
	go func() { // what comes later is not waited for: it never ends to come
		for i := 21; ; i++ {
			select {
			case <-held:
				return
			default:
				_, _ = r.nc.Request("muster.in.b", []byte(`{"trigger":"start"}`), within)
			}
		}
	}()
	r.read(nil)
	select {
	case <-held:
	case <-time.After(within):
		t.Fatal("all that waited is judged, and it is still held")
	}
	if got := r.seqs("a"); !slices.Equal(got, upTo(20)) {
		t.Errorf("released when only %v was judged", got)
	}
}

func TestHoldIsGivenUpWhenNothingMoves(t *testing.T) {
	r := newRig(t, Limits{})
	r.tell("a", 1, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	var said safeBuffer
	h := Holder{Store: r.store, Logger: slog.New(slog.NewTextHandler(&said, nil)), Every: time.Millisecond, Patient: 30 * time.Millisecond}
	select {
	case <-h.Hold(t.Context(), wg.Go):
	case <-time.After(within):
		t.Fatal("held for ever")
	}
	if !strings.Contains(said.String(), "nothing moves") {
		t.Errorf("said %q", said.String())
	}
}
