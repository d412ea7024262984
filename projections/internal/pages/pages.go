// Package pages is a growing list that never moves what it holds.
//
// A view keeps one row per account. A plain slice of a million rows is copied
// whenever it grows, which for a moment takes twice the memory and keeps the
// partition waiting; List grows by a page at a time instead. It owns no rule
// and cannot fail. It is not safe for use by several goroutines.
package pages

// Size is the number of elements of a page.
const Size = 1 << pageBits

const (
	pageBits = 10
	pageMask = Size - 1
)

// List is a list of elements, numbered from 0. The zero List is empty.
type List[T any] struct {
	pages []*[Size]T
	n     int
}

// Len is the number of elements.
func (l *List[T]) Len() int { return l.n }

// At returns the i-th element; the pointer stays valid until Reset. It panics
// when there is no such element, as a slice does.
func (l *List[T]) At(i uint32) *T { return &l.pages[i>>pageBits][i&pageMask] }

// Append adds an element and returns its place.
func (l *List[T]) Append(v T) *T {
	if l.n>>pageBits == len(l.pages) {
		l.pages = append(l.pages, new([Size]T))
	}
	p := &l.pages[l.n>>pageBits][l.n&pageMask]
	*p = v
	l.n++
	return p
}

// Grow makes the list at least n long, by elements of value v.
func (l *List[T]) Grow(n int, v T) {
	for l.n < n {
		l.Append(v)
	}
}

// Reset empties the list.
func (l *List[T]) Reset() { *l = List[T]{} }
