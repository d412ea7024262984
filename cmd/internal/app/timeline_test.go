package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
)

// counted counts what is read of a log.
type counted struct {
	eventlog.Log
	records int
}

func (c *counted) Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for rec, err := range c.Log.Back(ctx, account, from) {
			c.records++
			if !yield(rec, err) {
				return
			}
		}
	}
}

// TestTimelinePages: whatever the account's share of the stream, and however its
// events lie in it, the pages are its events backwards, and reading one costs
// what it holds.
func TestTimelinePages(t *testing.T) {
	const length = 6000
	for name, mine := range map[string]func(i int, rnd *rand.Rand) bool{
		"every one":        func(int, *rand.Rand) bool { return true },
		"one in three":     func(i int, _ *rand.Rand) bool { return i%3 == 0 },
		"at random":        func(_ int, rnd *rand.Rand) bool { return rnd.IntN(20) == 0 },
		"only the first":   func(i int, _ *rand.Rand) bool { return i < 70 },
		"only the last":    func(i int, _ *rand.Rand) bool { return i >= length-70 },
		"in two bursts":    func(i int, _ *rand.Rand) bool { return i < 300 || i >= length-50 },
		"a single one":     func(i int, _ *rand.Rand) bool { return i == 17 },
		"the first and on": func(i int, _ *rand.Rand) bool { return i == 0 || i > length-10 },
	} {
		t.Run(name, func(t *testing.T) {
			log := &counted{Log: memlog.New(1)}
			l := command.Look{Account: &domain.Account{ID: "mine"}}
			rnd := rand.New(rand.NewPCG(1, 1))
			var want, others []uint64
			for i := range length {
				account, last := "mine", &want
				if !mine(i, rnd) {
					account, last = "others", &others
				}
				expect := uint64(0)
				if n := len(*last); n > 0 {
					expect = (*last)[n-1]
				}
				r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: account, Expect: expect, Data: fmt.Append(nil, i)}})
				if r[0].Err != nil {
					t.Fatal(r[0].Err)
				}
				*last = append(*last, r[0].Seq)
			}
			l.Account.Version, l.Seq = uint64(len(want)), want[len(want)-1]
			slices.Reverse(want)
			for _, n := range []int{1, 7, 200, 10_000} {
				log.records = 0
				if got, pages := pages(t, log, l, n); !slices.Equal(got, want) {
					t.Errorf("pages of %d: %d records, want %d", n, len(got), len(want))
				} else if log.records > len(want)+2*pages { // one on either side, to go on from and to see whether there are more
					t.Errorf("%d records were read for %d on %d pages of %d", log.records, len(want), pages, n)
				}
			}
		})
	}
}

// pages follows the pages to their end.
func pages(t *testing.T, log accountLog, l command.Look, n int) (seqs []uint64, count int) {
	t.Helper()
	before := uint64(0)
	for {
		records, whole, err := tail(t.Context(), log, l, before, n)
		if err != nil {
			t.Fatal(err)
		}
		count++
		for _, r := range records {
			seqs = append(seqs, r.Seq)
		}
		if whole {
			return seqs, count
		}
		if len(records) != n {
			t.Fatalf("a page of %d has %d records and is not the last", n, len(records))
		}
		before = records[n-1].Seq
	}
}

// broken is a log that cannot be read.
type broken struct{ eventlog.Log }

func (broken) Back(context.Context, string, uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) { yield(eventlog.Record{}, errors.New("no leader")) }
}

func TestTimelineOfALogThatCannotBeRead(t *testing.T) {
	_, _, err := tail(t.Context(), broken{}, command.Look{Account: &domain.Account{ID: "a", Version: 3}, Seq: 9}, 0, 5)
	if err == nil || err.Error() != `read the events of account "a": no leader` {
		t.Errorf("got %v", err)
	}
}
