package natslog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
	"github.com/musterhq/muster/eventlog/natstest"
)

// TestBackOverRecordsWithoutALink: records that somebody else has published
// without a guard do not say which one is before them. They, and all before
// them, come nevertheless, over more of the log than is read at once.
func TestBackOverRecordsWithoutALink(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	log := open(t, nc, natslog.Config{Partitions: 1})
	var want []uint64
	last := uint64(0)
	for i := range 4 {
		last = eventlogtest.Store(t, log, "a", last, fmt.Sprint(i))
		want = append(want, last)
		others := make([]eventlog.Entry, 900)
		for k := range others {
			others[k] = eventlog.Entry{Account: fmt.Sprintf("b-%d-%d", i, k)}
		}
		for _, r := range log.Append(t.Context(), 0, others) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if i == 1 {
			if _, err := nc.Request(eventlog.Subject(0, "a"), []byte("no guard"), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			r, err := log.Last(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			last = r.Seq
			want = append(want, last)
		}
	}
	slices.Reverse(want)
	for _, from := range []uint64{want[0], want[0] + 500, want[2]} {
		var got []uint64
		for _, r := range eventlogtest.MustCollect(t, log.Back(t.Context(), "a", from)) {
			got = append(got, r.Seq)
		}
		expect := slices.DeleteFunc(slices.Clone(want), func(seq uint64) bool { return seq > from })
		if !slices.Equal(got, expect) {
			t.Errorf("back from %d: %d, want %d", from, got, expect)
		}
	}
}

// TestBackReadsTheFiles: what was acknowledged is read from the blocks as the
// server writes them, and the server is not asked.
func TestBackReadsTheFiles(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 2, Blocks: blockscan.NewReader(s.StoreDir())})
	last := map[string]uint64{}
	for i := range 400 {
		a := fmt.Sprint("a-", i%5)
		last[a] = eventlogtest.Store(t, log, a, last[a], fmt.Sprint(i))
	}
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for a, seq := range last {
		n := 400 - 5 + int(a[2]-'0')
		for _, r := range eventlogtest.MustCollect(t, log.Back(ctx, a, seq)) {
			if r.Account != a || string(r.Data) != fmt.Sprint(n) || r.Time == 0 || r.Partition != eventlog.Partition(a, 2) {
				t.Fatalf("%s: %+v, want the data %d", a, r, n)
			}
			n -= 5
		}
		if n >= 0 {
			t.Errorf("%s: the records end before %d", a, n)
		}
	}
}
