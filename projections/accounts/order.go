package accounts

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"
)

// settle builds the order of the accounts by their ids, if it is not there
// yet; from then on it is kept. Sorting all accounts once takes a tenth of the
// time of entering them one by one, so a view that is being replayed puts it
// off until it is asked or has caught up.
func (s *shard) settle() {
	s.mu.RLock()
	settled := s.order != nil
	s.mu.RUnlock()
	if settled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.order != nil {
		return
	}
	s.ids.RLock()
	defer s.ids.RUnlock()
	ids := s.ids
	order := btree.NewBTreeGOptions(func(a, b uint32) bool { return ids.Compare(a, b) < 0 }, btree.Options{NoLocks: true})
	for _, k := range s.sorted() {
		order.Load(k.number)
	}
	s.order = order
}

// sortKey is an account with the 16 bytes of its id that follow what all ids
// have in common, so that most comparisons need not look the id up.
type sortKey struct {
	high, low uint64
	number    uint32
}

// sorted returns all accounts shown, in the order of their ids.
func (s *shard) sorted() []sortKey {
	keys := make([]sortKey, 0, s.shown)
	common := -1
	var first string
	for i := range uint32(s.rows.Len()) {
		if !s.rows.At(i).shown() {
			continue
		}
		id := string(s.ids.ID(i))
		if common < 0 {
			first, common = id, len(id)
		}
		common = commonPrefix(first[:common], id)
		keys = append(keys, sortKey{number: i})
	}
	for i := range keys {
		k := &keys[i]
		var b [16]byte
		copy(b[:], s.ids.ID(k.number)[common:])
		k.high, k.low = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	}
	slices.SortFunc(keys, func(a, b sortKey) int {
		return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low), s.ids.Compare(a.number, b.number))
	})
	return keys
}

// commonPrefix is the length of what two texts begin with.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
