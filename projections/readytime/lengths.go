package readytime

import "time"

// Lengths tells how long the episodes of one kind took that reached RUNNING: for
// each of the bounds how many took that long at most, how many there are in all,
// and the sum of their seconds. Lengths that are kept in buckets 1 % wide count
// with the middle of theirs.
func (v *View) Lengths(kind Kind, bounds []time.Duration) (within []uint64, all uint64, seconds float64) {
	var g group
	for _, s := range v.Parts() {
		s.mu.RLock()
		if one := s.groups[groupKey{kind: kind}]; one != nil {
			g.merge(one)
		}
		s.mu.RUnlock()
	}
	within = make([]uint64, len(bounds))
	for _, o := range g.reached.observe(nil, Reached) {
		for i, b := range bounds {
			if o.Seconds <= b.Seconds() {
				within[i] += uint64(o.Episodes)
			}
		}
	}
	if mean := g.reached.mean(); mean != nil {
		seconds = *mean * float64(g.reached.n)
	}
	return within, uint64(g.reached.n), seconds
}

// Open is how many episodes of a kind go on.
func (v *View) Open(kind Kind) (n int) {
	for _, s := range v.Parts() {
		s.mu.RLock()
		for _, ep := range s.open {
			if ep.kind == kind {
				n++
			}
		}
		s.mu.RUnlock()
	}
	return n
}
