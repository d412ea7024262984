// Package shards holds a view's parts, one for each partition, and does with them
// what every view does in the same way: hand each the events of its partition,
// save it, replace it by a saved one or by one that was folded anew, empty it.
//
// It owns which part is the one that counts: a part is filled while nobody asks
// it and then takes the place of the old one at once, so that a query sees either
// and never half of one. It cannot fail but by what a part fails with.
package shards

import (
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
)

// Shard is one partition's part of a view. Apply, Save and Load are never called
// at the same time; what else the view asks of it may be.
type Shard[S any] interface {
	*S
	Apply(at projections.Place, e *domain.Event)
	Save(w io.Writer) error
	Load(r io.Reader) error // into an empty one
}

// Set is the parts of a view, which embeds it. Make it with New.
type Set[S any, P Shard[S]] struct {
	fresh func(partition int) *S
	parts []atomic.Pointer[S]
}

// New returns a set of empty parts, made by fresh.
func New[S any, P Shard[S]](partitions int, fresh func(partition int) *S) Set[S, P] {
	s := Set[S, P]{fresh: fresh, parts: make([]atomic.Pointer[S], partitions)}
	s.Reset()
	return s
}

// Partitions is the number of parts.
func (s *Set[S, P]) Partitions() int { return len(s.parts) }

// Part is the part of a partition, as it counts now.
func (s *Set[S, P]) Part(partition int) *S { return s.parts[partition].Load() }

// Parts yields all parts, by partition.
func (s *Set[S, P]) Parts() iter.Seq2[int, *S] {
	return func(yield func(int, *S) bool) {
		for i := range s.parts {
			if !yield(i, s.parts[i].Load()) {
				return
			}
		}
	}
}

// Apply folds one event in.
func (s *Set[S, P]) Apply(at projections.Place, e *domain.Event) {
	P(s.parts[at.Partition].Load()).Apply(at, e)
}

// Save writes the state of one partition.
func (s *Set[S, P]) Save(partition int, w io.Writer) error {
	return P(s.parts[partition].Load()).Save(w)
}

// Load replaces the state of one partition by a saved one. The roster must have
// been loaded before.
func (s *Set[S, P]) Load(partition int, r io.Reader) error {
	part := s.fresh(partition)
	if err := P(part).Load(r); err != nil {
		return err
	}
	s.parts[partition].Store(part)
	return nil
}

// Reset empties all partitions.
func (s *Set[S, P]) Reset() {
	for i := range s.parts {
		s.parts[i].Store(s.fresh(i))
	}
}

// parted is a view that embeds a Set of these parts.
type parted[S any] interface{ Part(partition int) *S }

// Take replaces the state of one partition by that of another view of the same
// kind, which must not be used any more.
func (s *Set[S, P]) Take(partition int, from projections.View) {
	o, ok := from.(parted[S])
	if !ok {
		panic(fmt.Sprintf("take partition %d: %s is a view of another kind", partition, from.Name()))
	}
	s.parts[partition].Store(o.Part(partition))
}
