package projections_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/musterhq/muster/projections"
)

func TestRoster(t *testing.T) {
	ids := projections.NewRoster(1).Ids(0)
	const n = 10_000
	for i := range uint32(n) {
		if got := ids.Add(fmt.Sprint("acct-", i)); got != i {
			t.Fatalf("account %d has number %d", i, got)
		}
	}
	for i := range uint32(n) {
		id := fmt.Sprint("acct-", i)
		if got, ok := ids.Find(id); !ok || got != i || ids.Add(id) != i || string(ids.ID(i)) != id {
			t.Fatalf("account %d: found %d %v, id %q", i, got, ok, ids.ID(i))
		}
	}
	if _, ok := ids.Find("acct"); ok || ids.Len() != n {
		t.Errorf("a part of an id was found, or there are %d accounts", ids.Len())
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"acct-1", "acct-10", -1}, {"acct-2", "acct-10", 1}, {"acct-7", "acct-7", 0}} {
		a, _ := ids.Find(c.a)
		b, _ := ids.Find(c.b)
		if ids.Compare(a, b) != c.want || ids.CompareID(a, c.b) != c.want {
			t.Errorf("%s and %s: %d and %d, want %d", c.a, c.b, ids.Compare(a, b), ids.CompareID(a, c.b), c.want)
		}
	}
	if a, _ := ids.Find("acct-123"); !ids.HasPrefix(a, "acct-12") || !ids.HasPrefix(a, "") || ids.HasPrefix(a, "acct-1234") {
		t.Error("prefixes are wrong")
	}
}

// TestRosterWithIDsOfEveryLength also crosses the ends of its chunks.
func TestRosterWithIDsOfEveryLength(t *testing.T) {
	ids := projections.NewRoster(1).Ids(0)
	var all []string
	for round := range 20 {
		for length := 1; length <= 128; length++ {
			id := strings.Repeat(string(rune('a'+round)), length)
			all = append(all, id)
			ids.Add(id)
		}
	}
	var got []string
	for i := range all {
		got = append(got, string(ids.ID(uint32(i))))
	}
	if !slices.Equal(got, all) {
		t.Error("an id was not kept as it was given")
	}
}

func TestRosterIsReadWhileItGrows(t *testing.T) {
	ids := projections.NewRoster(1).Ids(0)
	grown := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-grown:
					done = true
				default:
				}
				ids.RLock()
				if n := ids.Len(); n > 0 {
					if id := ids.ID(uint32(n - 1)); string(id) != fmt.Sprint("acct-", n-1) {
						t.Errorf("account %d is %q", n-1, id)
					}
				}
				ids.RUnlock()
			}
		})
	}
	for i := range 20_000 {
		ids.Add(fmt.Sprint("acct-", i))
	}
	close(grown)
	readers.Wait()
}
