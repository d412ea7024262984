package merge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/musterhq/muster/projections/internal/merge"
)

// part is the keys of one partition, of which only the even ones are wanted.
type part []string

// next looks at most at look keys.
func (p part) next(after string, most, look int) merge.Batch[string] {
	b := merge.Batch[string]{Through: after, Done: true}
	for _, k := range p {
		if k <= after {
			continue
		}
		if look == 0 || len(b.Found) == most {
			b.Done = false
			break
		}
		look--
		b.Through = k
		if (k[len(k)-1]-'0')%2 == 0 {
			b.Found = append(b.Found, k)
		}
	}
	return b
}

// TestPagesAreTheSortedList: whatever the parts, the bounds and the size of a
// page, following the pages gives every row once, in order.
func TestPagesAreTheSortedList(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		parts := make([]part, 1+rnd.IntN(5))
		var want []string
		for i := range rnd.IntN(200) {
			k := fmt.Sprintf("k%04d", i*7%1000)
			p := rnd.IntN(len(parts))
			parts[p] = append(parts[p], k)
			if (k[len(k)-1]-'0')%2 == 0 {
				want = append(want, k)
			}
		}
		for i := range parts {
			slices.Sort(parts[i])
		}
		slices.Sort(want)
		look, tries, limit := 1+rnd.IntN(10), 1+rnd.IntN(3), 1+rnd.IntN(20)
		var got []string
		for after, pages := "", 0; ; pages++ {
			rows, rest := merge.Page(len(parts), tries, after, limit, func(s *string) string { return *s },
				func(p int, after string, most int) merge.Batch[string] { return parts[p].next(after, most, look) })
			got = append(got, rows...)
			if len(rows) > limit {
				t.Fatalf("seed %d: %d rows on a page of %d", seed, len(rows), limit)
			}
			if rest == "" {
				break
			}
			if rest <= after || pages > 1000 {
				t.Fatalf("seed %d: the page behind %q is followed by the one behind %q", seed, after, rest)
			}
			after = rest
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
