package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/musterhq/muster/eventlog"
)

// fill appends n records of two accounts to partition 0 of 1 and returns their sequences.
func fill(t *testing.T, log eventlog.Log, n int) []uint64 {
	t.Helper()
	var seqs []uint64
	last := map[string]uint64{}
	for i := range n {
		a := []string{"a", "b"}[i%2]
		last[a] = Store(t, log, a, last[a], fmt.Sprint(i))
		seqs = append(seqs, last[a])
	}
	return seqs
}

func testLast(t *testing.T, open Open) {
	log := open(t, 2)
	if _, err := log.Last(t.Context(), "nobody"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("last of an unknown account: %v, want ErrNotFound", err)
	}
	var seq uint64
	for i := range 5 {
		seq = Store(t, log, "a", seq, fmt.Sprint(i))
		r, err := log.Last(t.Context(), "a")
		if err != nil || r.Seq != seq || string(r.Data) != fmt.Sprint(i) || r.Account != "a" ||
			r.Partition != eventlog.Partition("a", 2) || r.Time == 0 {
			t.Errorf("after append %d: %+v, %v", i, r, err)
		}
	}
}

func testAccountFrom(t *testing.T, open Open) {
	log := open(t, 1)
	seqs := fill(t, log, 9) // a has 1 3 5 7 9
	for _, c := range []struct {
		from uint64
		want []string
	}{
		{0, []string{"0", "2", "4", "6", "8"}},
		{1, []string{"0", "2", "4", "6", "8"}},
		{seqs[2], []string{"2", "4", "6", "8"}},
		{seqs[3], []string{"4", "6", "8"}},
		{seqs[8], []string{"8"}},
		{seqs[8] + 1, nil},
		{seqs[8] + 1000, nil},
	} {
		var got []string
		for _, r := range MustCollect(t, log.Account(t.Context(), "a", c.from)) {
			got = append(got, string(r.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %d: %q, want %q", c.from, got, c.want)
		}
	}
	if got := MustCollect(t, log.Account(t.Context(), "nobody", 0)); len(got) != 0 {
		t.Errorf("an unknown account has %d records", len(got))
	}
}

func testBackFrom(t *testing.T, open Open) {
	log := open(t, 1)
	seqs := fill(t, log, 9) // a has 1 3 5 7 9
	for _, c := range []struct {
		from uint64
		want []string
	}{
		{0, nil},
		{1, []string{"0"}},
		{seqs[4], []string{"4", "2", "0"}},
		{seqs[5], []string{"4", "2", "0"}}, // another account's
		{seqs[8], []string{"8", "6", "4", "2", "0"}},
		{seqs[8] + 1000, []string{"8", "6", "4", "2", "0"}},
	} {
		var got []string
		for _, r := range MustCollect(t, log.Back(t.Context(), "a", c.from)) {
			got = append(got, string(r.Data))
			if r.Account != "a" || r.Partition != 0 || r.Time == 0 || r.Seq == 0 {
				t.Errorf("back from %d: %+v", c.from, r)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("back from %d: %q, want %q", c.from, got, c.want)
		}
	}
	if got := MustCollect(t, log.Back(t.Context(), "nobody", seqs[8])); len(got) != 0 {
		t.Errorf("an unknown account has %d records", len(got))
	}
	for r := range log.Back(t.Context(), "a", seqs[8]) { // who has enough stops
		if r.Seq == seqs[6] {
			break
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Collect(log.Back(ended, "a", seqs[8])); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %d records and %v", len(got), err)
	}
}

func testReadEndsWhereItBegan(t *testing.T, open Open) {
	log := open(t, 1)
	if got := MustCollect(t, log.Read(t.Context(), 0, 0)); len(got) != 0 {
		t.Fatalf("an empty log yields %d records", len(got))
	}
	fill(t, log, 4)
	var got int
	var last uint64
	for r, err := range log.Read(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got++; got > 4 {
			break
		}
		last = Store(t, log, "c", last, "while reading")
		_ = r
	}
	if got != 4 {
		t.Errorf("read %d records, want the 4 of its beginning", got)
	}
}

func testReadAfter(t *testing.T, open Open) {
	log := open(t, 1)
	seqs := fill(t, log, 6)
	for after, want := range map[uint64]int{0: 6, seqs[0]: 5, seqs[4]: 1, seqs[5]: 0, seqs[5] + 1: 0, seqs[5] + 1000: 0} {
		got := MustCollect(t, log.Read(t.Context(), 0, after))
		if len(got) != want || want > 0 && got[0].Seq != after+1 {
			t.Errorf("after %d: %d records, want %d", after, len(got), want)
		}
	}
}

func testReadStopsEarly(t *testing.T, open Open) {
	log := open(t, 1)
	fill(t, log, 6)
	for range 3 {
		for r, err := range log.Read(t.Context(), 0, 0) {
			if err != nil || r.Seq != 1 {
				t.Fatalf("%s, %v", line(r), err)
			}
			break
		}
	}
}

func testReadEndedContext(t *testing.T, open Open) {
	log := open(t, 1)
	fill(t, log, 6)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := 0
	var end error
	for _, err := range log.Read(ctx, 0, 0) {
		if end = err; err != nil {
			break
		}
		got++
		cancel()
	}
	if end == nil || !errors.Is(end, context.Canceled) || got == 6 {
		t.Errorf("read %d records and ended with %v: a read that was cut short must say so", got, end)
	}
	if _, err := Collect(log.Account(ctx, "a", 0)); err == nil {
		t.Error("Account with an ended context ends without an error")
	}
	if _, err := log.Last(ctx, "a"); err == nil || errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("Last with an ended context: %v", err)
	}
}

func testFollowGoesOn(t *testing.T, open Open) {
	log := open(t, 1)
	fill(t, log, 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want := uint64(0)
	var last uint64
	for r, err := range log.Follow(ctx, 0, 0) {
		if want++; err != nil || r.Seq != want {
			t.Fatalf("record %d: %s, %v", want, line(r), err)
		}
		if want == 23 {
			break
		}
		if want >= 3 { // caught up: the next one is not there yet
			last = Store(t, log, "c", last, fmt.Sprint(want))
		}
	}
	if want != 23 {
		t.Errorf("followed to %d, want 23: %v", want, ctx.Err())
	}
}

func testFollowFromAnySequence(t *testing.T, open Open) {
	log := open(t, 1)
	seqs := fill(t, log, 8)
	for _, after := range seqs[:7] {
		if got := followTo(t, log, after, seqs[7]); got != int(seqs[7]-after) {
			t.Errorf("after %d: followed %d records, want %d", after, got, seqs[7]-after)
		}
	}
}

// followTo follows partition 0 to a sequence, holds each step to be the next
// one, and returns the number of records.
func followTo(t *testing.T, log eventlog.Log, after, end uint64) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := 0
	for r, err := range log.Follow(ctx, 0, after) {
		if n++; err != nil || r.Seq != after+uint64(n) {
			t.Errorf("after %d, record %d: %s, %v", after, n, line(r), err)
		}
		if r.Seq >= end {
			break
		}
	}
	return n
}

func testFollowEndsQuietly(t *testing.T, open Open) {
	log := open(t, 1)
	fill(t, log, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for r, err := range log.Follow(ctx, 0, 0) {
		if err != nil {
			t.Errorf("after %s: %v", line(r), err)
		}
		if n++; n == 2 {
			cancel()
		}
	}
	if n != 2 {
		t.Errorf("followed %d records, want 2", n)
	}
}

func testInfo(t *testing.T, open Open) {
	log := open(t, 1)
	empty, err := log.Info(t.Context(), 0)
	if err != nil || empty.Last != 0 || empty.Messages != 0 || empty.Incarnation == "" {
		t.Errorf("empty log: %+v, %v", empty, err)
	}
	seqs := fill(t, log, 5)
	full, err := log.Info(t.Context(), 0)
	want := eventlog.Info{First: seqs[0], Last: seqs[4], Messages: 5, Incarnation: empty.Incarnation}
	if err != nil || full != want {
		t.Errorf("info %+v, %v, want %+v", full, err, want)
	}
	other, err := open(t, 1).Info(t.Context(), 0)
	if err != nil || other.Incarnation == full.Incarnation {
		t.Errorf("two logs have the incarnation %q, %v", other.Incarnation, err)
	}
}

func testSync(t *testing.T, open Open) {
	log := open(t, 2)
	Store(t, log, Accounts(2, 1, 1)[0], 0, "x")
	for p := range 2 {
		if err := log.Sync(t.Context(), p); err != nil {
			t.Errorf("sync of partition %d: %v", p, err)
		}
	}
}

func testNoSuchPartition(t *testing.T, open Open) {
	log := open(t, 2)
	for _, p := range []int{-1, 2} {
		if _, err := Collect(log.Read(t.Context(), p, 0)); err == nil {
			t.Errorf("Read of partition %d of 2 is no error", p)
		}
		if _, err := Collect(log.Follow(t.Context(), p, 0)); err == nil {
			t.Errorf("Follow of partition %d of 2 is no error", p)
		}
		if _, err := log.Info(t.Context(), p); err == nil {
			t.Errorf("Info of partition %d of 2 is no error", p)
		}
		if err := log.Sync(t.Context(), p); err == nil {
			t.Errorf("Sync of partition %d of 2 is no error", p)
		}
	}
	if log.Partitions() != 2 {
		t.Errorf("Partitions() = %d", log.Partitions())
	}
}
