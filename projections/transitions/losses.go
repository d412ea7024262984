package transitions

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/projections/internal/wire"
)

// The bounds of what is kept of single accounts, for each partition.
const (
	// LossesWindow is the longest window that Losses tells of.
	LossesWindow = time.Hour
	// MaxLosses is the number of accounts whose losses are kept at once; of a loss
	// of one more, nothing is known.
	MaxLosses = 16_384
	// MaxTimes is how many losses of one account are kept, the last ones.
	MaxTimes = 64
)

// lossesKept is longer than the window, by as much as a clock may be behind the
// newest event.
const lossesKept = int64(LossesWindow + 5*time.Minute)

// Disconnected is the state into which a loss leads.
const Disconnected = "DISCONNECTED"

// Loss is how often one account was lost.
type Loss struct {
	Partition int
	Account   uint32 // its number in the partition, see projections.Roster
	Times     int
	Last      int64 // unix ns: the latest time of them
}

// losses are the times of the last moves into Disconnected, by account. An account
// whose last one is long ago is left out when the place is needed.
type losses struct {
	times   map[uint32][]int64 // in the order of judging
	newest  int64
	skipped int64 // the time of the last loss for which there was no place; 0: none
	cleared int64 // newest, when places were last looked for
}

// clearEvery is how much later places are looked for again: when a whole fleet is
// lost at once, there are none however often one looks.
const clearEvery = int64(time.Minute)

func (l *losses) add(account uint32, at int64) {
	l.newest = max(l.newest, at)
	list, known := l.times[account]
	if !known && len(l.times) >= MaxLosses {
		if l.newest >= l.cleared+clearEvery {
			l.cleared = l.newest
			maps.DeleteFunc(l.times, func(_ uint32, times []int64) bool { return slices.Max(times) < l.newest-lossesKept })
		}
		if len(l.times) >= MaxLosses {
			l.skipped = max(l.skipped, at)
			return
		}
	}
	if len(list) == MaxTimes {
		list = slices.Delete(list, 0, 1)
	}
	l.times[account] = append(list, at)
}

func (l *losses) save(out *wire.Writer) {
	out.Int(l.newest)
	out.Int(l.skipped)
	out.Int(l.cleared)
	out.Uint(uint64(len(l.times)))
	for _, account := range slices.Sorted(maps.Keys(l.times)) {
		out.Uint(uint64(account))
		out.Uint(uint64(len(l.times[account])))
		for _, at := range l.times[account] {
			out.Int(at)
		}
	}
}

func (l *losses) load(in *wire.Reader) {
	l.newest, l.skipped, l.cleared = in.Int(), in.Int(), in.Int()
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		account := uint32(in.Uint())
		var list []int64
		for k := in.Len(); k > 0 && in.Err() == nil; k-- {
			list = append(list, in.Int())
		}
		if len(list) == 0 || len(list) > MaxTimes {
			in.Fail(errShape)
		}
		l.times[account] = list
	}
	if len(l.times) > MaxLosses {
		in.Fail(errShape)
	}
}

// Losses are the accounts that moved into Disconnected so often or more often in the
// window up to now (unix ns), the one that did most often first, up to limit of them.
// The window is LossesWindow at most. whole is false when more were lost in that time
// than are kept.
func (v *View) Losses(now int64, window time.Duration, least, limit int) (list []Loss, whole bool) {
	after := now - int64(min(window, LossesWindow))
	whole = true
	for p, s := range v.Parts() {
		s.mu.RLock()
		whole = whole && s.losses.skipped <= after
		for account, times := range s.losses.times {
			l := Loss{Partition: p, Account: account}
			for _, at := range times {
				if at > after {
					l.Times++
					l.Last = max(l.Last, at)
				}
			}
			if l.Times >= max(1, least) {
				list = append(list, l)
			}
		}
		s.mu.RUnlock()
	}
	slices.SortFunc(list, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Account, b.Account))
	})
	if len(list) > limit {
		list = list[:max(0, limit)]
	}
	return list, whole
}
