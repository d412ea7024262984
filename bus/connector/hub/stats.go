package hub

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/domain"
)

// maxSamples is how many unmapped units of a source are kept: the last ones.
const maxSamples = 20

// Stats are the counters of one source since the start. A delivery is the
// smallest unit that a body holds; each is counted once, as a fact, a duplicate,
// ignored or unmapped.
type Stats struct {
	Kind string
	Name string

	Requests int64 // all that found the source
	Last     time.Time
	// What deliveries were.
	Facts      int64 // triggers were judged
	Duplicates int64
	Ignored    int64
	Unmapped   int64
	// What became of their triggers, by the outcome's name.
	Outcomes map[string]int64
	// Requests of which nothing was kept.
	Unauthenticated int64
	Malformed       int64
	TooLarge        int64
	Aborted         int64 // the body did not arrive, or not in time
	Unavailable     int64 // they were told to come again
	// LastRefusal says why the last request was not believed; "" = all were.
	LastRefusal string
}

// Sample is what was kept of an unmapped unit.
type Sample struct {
	At   time.Time      `json:"at"`
	What string         `json:"what"`
	Kept map[string]any `json:"kept"`
}

// counters are the Stats of a source while they change.
type counters struct {
	requests, facts, duplicates, ignored, unmapped                       atomic.Int64
	unauthenticated, malformed, tooLarge, aborted, unavailable, lastSeen atomic.Int64
	outcomes                                                             [domain.Invalid + 1]atomic.Int64
	refusal                                                              atomic.Pointer[string]
	lastWarning                                                          atomic.Int64

	mu      sync.Mutex
	samples []Sample
}

func (c *counters) sample(s Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.samples) == maxSamples {
		c.samples = append(c.samples[:0], c.samples[1:]...)
	}
	c.samples = append(c.samples, s)
}

func (c *counters) stats(kind, name string) Stats {
	s := Stats{
		Kind: kind, Name: name, Requests: c.requests.Load(),
		Facts: c.facts.Load(), Duplicates: c.duplicates.Load(), Ignored: c.ignored.Load(), Unmapped: c.unmapped.Load(),
		Outcomes:        map[string]int64{},
		Unauthenticated: c.unauthenticated.Load(), Malformed: c.malformed.Load(), TooLarge: c.tooLarge.Load(),
		Aborted: c.aborted.Load(), Unavailable: c.unavailable.Load(),
	}
	if ns := c.lastSeen.Load(); ns != 0 {
		s.Last = time.Unix(0, ns)
	}
	if why := c.refusal.Load(); why != nil {
		s.LastRefusal = *why
	}
	for o := range c.outcomes {
		if n := c.outcomes[o].Load(); n > 0 {
			s.Outcomes[domain.Outcome(o).String()] = n
		}
	}
	return s
}

// Stats returns the counters of all sources, by kind and name.
func (h *Hub) Stats() []Stats {
	var list []Stats
	for _, k := range h.kinds {
		for _, e := range k.sources {
			list = append(list, e.count.stats(e.source.Kind, e.source.Name))
		}
	}
	slices.SortFunc(list, func(a, b Stats) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return list
}

// Samples returns what was kept of the source's last unmapped units, oldest
// first; ok is false when there is no such source.
func (h *Hub) Samples(name string) (samples []Sample, ok bool) {
	for k := range maps.Values(h.kinds) {
		if e := k.sources[name]; e != nil {
			e.count.mu.Lock()
			defer e.count.mu.Unlock()
			return slices.Clone(e.count.samples), true
		}
	}
	return nil, false
}
