package attention

import (
	"cmp"
	"slices"
)

// The accounts of a bucket are in no order, but an incident shows the first of
// them by id, and when the first and the last of their items began. Of a bucket
// with many items these are kept from the first time that they are asked for.
const (
	manyItems = 64 // in a bucket: with fewer, they are looked at one by one
	edgeKept  = 16 // of each order: so many may go, the first ones, before all are looked at again
)

// edge is the first of some values that come and go, in an order.
type edge[T any] struct {
	order func(a, b T) int
	list  []T
	whole bool // list holds all there are
}

// add puts a value in, if it belongs to the first ones.
func (e *edge[T]) add(v T) {
	if n := len(e.list); n > 0 && !e.whole && e.order(v, e.list[n-1]) > 0 || n == 0 && !e.whole {
		return // others may lie between
	}
	at, _ := slices.BinarySearchFunc(e.list, v, e.order)
	if e.list = slices.Insert(e.list, at, v); len(e.list) > edgeKept {
		e.list, e.whole = e.list[:edgeKept], false
	}
}

// remove takes a value out, if it is one of the first.
func (e *edge[T]) remove(v T) {
	if at, ok := slices.BinarySearchFunc(e.list, v, e.order); ok {
		e.list = slices.Delete(e.list, at, at+1)
	}
}

// has says whether the first n values are known.
func (e *edge[T]) has(n int) bool { return e.whole || len(e.list) >= n }

// edges are those of one bucket.
type edges struct {
	accounts edge[uint32] // by id
	oldest   edge[int64]  // when items began
	newest   edge[int64]
}

func (e *edges) add(number uint32, since int64) {
	e.accounts.add(number)
	e.oldest.add(since)
	e.newest.add(since)
}

func (e *edges) remove(number uint32, since int64) {
	e.accounts.remove(number)
	e.oldest.remove(since)
	e.newest.remove(since)
}

// good says whether all that an incident shows is known.
func (e *edges) good() bool { return e.accounts.has(sampled) && e.oldest.has(1) && e.newest.has(1) }

// prepare makes the edges of the incident's large buckets, where they are not
// known.
func (s *shard) prepare(i *Incident) {
	if len(s.unknown(i)) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	for _, key := range s.lacking(i) {
		e := &edges{
			accounts: edge[uint32]{order: s.ids.Compare, whole: true},
			oldest:   edge[int64]{order: cmp.Compare[int64], whole: true},
			newest:   edge[int64]{order: func(a, b int64) int { return cmp.Compare(b, a) }, whole: true},
		}
		for _, number := range s.buckets[key] {
			e.add(number, s.itemOf(number, key.kind).since)
		}
		s.edges[key] = e
	}
}

// unknown is lacking for one who does not hold the lock.
func (s *shard) unknown(i *Incident) []bucketKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lacking(i)
}

// lacking are the incident's large buckets whose edges are not known.
func (s *shard) lacking(i *Incident) (keys []bucketKey) {
	s.eachBucket(i, func(key bucketKey, list []uint32) {
		if e := s.edges[key]; len(list) > manyItems && (e == nil || !e.good()) {
			keys = append(keys, key)
		}
	})
	return keys
}

// eachBucket calls with the shard's buckets of an incident; the caller holds the
// lock.
func (s *shard) eachBucket(i *Incident, with func(key bucketKey, list []uint32)) {
	kind, k := s.kinds.Find(i.Kind)
	source, so := s.sources.Find(i.Source)
	reason, re := s.reasons.Find(i.Reason)
	if !k || !so || !re {
		return
	}
	for minute := i.from; minute <= i.to; minute++ {
		key := bucketKey{kind, reason, source, minute}
		if list := s.buckets[key]; len(list) > 0 {
			with(key, list)
		}
	}
}
