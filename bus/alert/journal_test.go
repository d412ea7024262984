package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog/natstest"
)

func opened(n int) change {
	return change{Open: &item{Account: fmt.Sprintf("acct-%05d", n), Kind: "stuck", Since: int64(n + 1), Seq: uint64(n)}}
}

func TestTheJournalOutlivesARestartAndIsCompacted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := natstest.Run(t)
	j, err := openJournal(ctx, s.Conn(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	st, err := j.load(ctx)
	if err != nil || len(st.items) != 0 {
		t.Fatalf("a new journal holds %d items, %v", len(st.items), err)
	}
	const n = 6000 // more than fit into one record
	var all []change
	for i := range n {
		all = append(all, opened(i))
		st.apply(&all[i])
	}
	if err := j.append(ctx, all, st); err != nil {
		t.Fatal(err)
	}
	j.count = compactAfter // as if there were many records
	last := opened(n)
	st.apply(&last)
	if err := j.append(ctx, []change{last}, st); err != nil {
		t.Fatal(err)
	}
	info, err := j.stream.Info(ctx)
	if err != nil || info.State.FirstSeq < 3 || info.State.Msgs > 10 {
		t.Fatalf("after compaction: %+v, %v", info.State, err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if j, err = openJournal(ctx, s.Conn(t), 0); err != nil {
		t.Fatal(err)
	}
	again, err := j.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dumped(t, again), dumped(t, st); !slices.Equal(got, want) {
		t.Errorf("%d lines came back, want the %d that were stored", len(got), len(want))
	}
}

func TestASnapshotThatIsNotWholeIsNotUsed(t *testing.T) {
	j := &memJournal{}
	st := newState()
	for i := range 3 {
		c := opened(i)
		st.apply(&c)
		if err := j.put([]change{c}, false); err != nil {
			t.Fatal(err)
		}
	}
	whole := len(j.records)
	var big []change
	for i := range 6000 {
		big = append(big, opened(i))
	}
	if err := j.put(big, true); err != nil {
		t.Fatal(err)
	}
	if len(j.records)-whole < 2 {
		t.Fatal("the snapshot has one part only: it shows nothing")
	}
	j.records = j.records[:len(j.records)-1] // the process died here
	later := opened(9999)
	st.apply(&later)
	if err := j.put([]change{later}, false); err != nil {
		t.Fatal(err)
	}
	got, err := j.load(t.Context())
	if err != nil || !slices.Equal(dumped(t, got), dumped(t, st)) {
		t.Errorf("%d accounts were loaded, %v; want 4", len(got.items), err)
	}
}

func TestTwoProcessesCannotBothWrite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := natstest.Run(t)
	var two [2]*natsJournal
	for i := range two {
		var err error
		if two[i], err = openJournal(ctx, s.Conn(t), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := two[i].load(ctx); err != nil {
			t.Fatal(err)
		}
	}
	st := newState()
	if err := two[0].append(ctx, []change{opened(1)}, st); err != nil {
		t.Fatal(err)
	}
	if err := two[1].append(ctx, []change{opened(2)}, st); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the second writer got %v, want ErrSuperseded", err)
	}
	if err := two[0].append(ctx, []change{opened(3)}, st); err != nil {
		t.Fatalf("the first writer was disturbed: %v", err)
	}
}

// An append whose answer was lost is recognised as stored.
func TestAnAnswerThatIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := natstest.Run(t)
	j, err := openJournal(ctx, s.Conn(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.load(ctx); err != nil {
		t.Fatal(err)
	}
	data := []byte(`{"v":1,"w":"x","n":1,"c":[]}`)
	for range 2 {
		if stored, err := j.try(ctx, data); !stored || err != nil {
			t.Fatalf("stored %v, %v", stored, err)
		}
	}
	info, err := j.stream.Info(ctx)
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("the journal has %d records, %v; want 1", info.State.Msgs, err)
	}
}
