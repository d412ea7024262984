// Package intern numbers the names that come again and again in a fleet's
// history (states, machines, sources, sets of labels), so that a view's row
// holds two bytes where a string would hold sixteen and more.
//
// It owns the numbers of one Table, which mean nothing outside it: a table is
// saved and loaded together with the rows that use it. It cannot fail. It is
// not safe for use by several goroutines.
package intern

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/projections/internal/wire"
)

// Table numbers texts 0, 1, 2 … in the order in which they first came. Number 0
// is the empty text. The zero Table is not ready; use New.
type Table struct {
	ids   map[string]uint32
	names []string
}

// New returns a table that holds the empty text.
func New() *Table {
	return &Table{ids: map[string]uint32{"": 0}, names: []string{""}}
}

// ID returns the number of s and gives it one if it has none. It keeps a copy,
// never s itself.
func (t *Table) ID(s string) uint32 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	id := uint32(len(t.names))
	s = strings.Clone(s)
	t.ids[s] = id
	t.names = append(t.names, s)
	return id
}

// Find returns the number of s, if it has one.
func (t *Table) Find(s string) (id uint32, ok bool) {
	id, ok = t.ids[s]
	return id, ok
}

// IDWithin is ID for texts that a publisher may invent without end: once the
// table holds limit texts, every new one has the number of other.
func (t *Table) IDWithin(s string, limit int, other string) uint32 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	if len(t.names) >= limit {
		return t.ID(other)
	}
	return t.ID(s)
}

// BytesWithin is IDWithin for a text that is made up in bytes which are used again.
func (t *Table) BytesWithin(b []byte, limit int, other string) uint32 {
	if id, ok := t.ids[string(b)]; ok {
		return id
	}
	return t.IDWithin(string(b), limit, other)
}

// Name returns the text with this number.
func (t *Table) Name(id uint32) string { return t.names[id] }

// Len is the number of texts.
func (t *Table) Len() int { return len(t.names) }

// Save writes the table.
func (t *Table) Save(w *wire.Writer) { w.Strings(t.names[1:]) }

// Load replaces the table by a saved one.
func (t *Table) Load(r *wire.Reader) {
	*t = *New()
	for _, s := range r.Strings() {
		t.ID(s)
	}
}

// Labels numbers sets of labels. Number 0 is the set without labels.
type Labels struct {
	numbers map[string]uint32
	sets    []LabelSet
	keys    []string // of the set that is being looked up
	key     []byte   // what numbers knows it by
}

// LabelSet is one set of labels. It must not be changed.
type LabelSet struct {
	Map   map[string]string
	Pairs []string // key=value, sorted by key
}

// NewLabels returns a table that holds the set without labels.
func NewLabels() *Labels {
	return &Labels{numbers: map[string]uint32{"": 0}, sets: make([]LabelSet, 1)}
}

// ID returns the number of a set and gives it one if it has none. It keeps a
// copy, never m itself.
func (l *Labels) ID(m map[string]string) uint32 {
	if len(m) == 0 {
		return 0
	}
	keys := l.keys[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	l.keys, l.key = keys, l.key[:0]
	for _, k := range keys {
		l.key = appendText(appendText(l.key, k), m[k])
	}
	if id, ok := l.numbers[string(l.key)]; ok {
		return id
	}
	set := LabelSet{Map: make(map[string]string, len(m)), Pairs: make([]string, 0, len(m))}
	for _, k := range keys {
		pair := k + "=" + m[k]
		set.Map[pair[:len(k)]] = pair[len(k)+1:]
		set.Pairs = append(set.Pairs, pair)
	}
	id := uint32(len(l.sets))
	l.numbers[string(l.key)] = id
	l.sets = append(l.sets, set)
	return id
}

// appendText adds a text to a set's key so that no two sets have one key.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Set returns the set with this number; it must not be changed.
func (l *Labels) Set(id uint32) *LabelSet { return &l.sets[id] }

// Len is the number of sets.
func (l *Labels) Len() int { return len(l.sets) }

// Save writes the table.
func (l *Labels) Save(w *wire.Writer) {
	w.Uint(uint64(len(l.sets) - 1))
	for _, set := range l.sets[1:] {
		w.Uint(uint64(len(set.Map)))
		for _, k := range slices.Sorted(maps.Keys(set.Map)) {
			w.String(k)
			w.String(set.Map[k])
		}
	}
}

// Load replaces the table by a saved one.
func (l *Labels) Load(r *wire.Reader) {
	*l = *NewLabels()
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		set := map[string]string{}
		for k := r.Len(); k > 0 && r.Err() == nil; k-- {
			name := r.String()
			set[name] = r.String()
		}
		l.ID(set)
	}
}
