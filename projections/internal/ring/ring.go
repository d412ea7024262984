// Package ring counts along time in a bounded space: so many buckets of so
// many nanoseconds, each with one number per column.
//
// The newest bucket is that of the latest time ever added. What falls out of
// the ring behind it, and what comes too late for it, is added to the base, so
// that base plus all buckets is always the sum of everything. It owns no
// meaning: columns are states, edges or whatever a view says. It cannot fail.
// It is not safe for use by several goroutines.
package ring

import (
	"errors"
	"slices"

	"github.com/musterhq/muster/projections/internal/wire"
)

// Ring is the buckets. Use New.
type Ring struct {
	width  int64 // ns
	size   int64 // buckets
	stride int   // columns there is room for
	cols   int   // columns in use
	newest int64 // number of the newest bucket; meaningless while empty
	empty  bool
	cells  []int32 // bucket number mod size, then column
	base   []int64 // by column: what is no longer in a bucket
}

// New returns a ring of size buckets of width nanoseconds.
func New(width, size int64) *Ring {
	return &Ring{width: width, size: size, empty: true}
}

// floorDiv rounds towards the past, also before 1970.
func floorDiv(t, width int64) int64 {
	q := t / width
	if t%width < 0 {
		q--
	}
	return q
}

// Bucket is the number of the bucket that t (unix ns) falls into.
func (r *Ring) Bucket(t int64) int64 { return floorDiv(t, r.width) }

// Start is the first instant (unix ns) of a bucket.
func (r *Ring) Start(bucket int64) int64 { return bucket * r.width }

// Newest is the number of the newest bucket; ok is false when nothing was added.
func (r *Ring) Newest() (bucket int64, ok bool) { return r.newest, !r.empty }

// Oldest is the number of the oldest bucket that is still told apart.
func (r *Ring) Oldest() int64 { return r.newest - r.size + 1 }

// Columns is the number of columns.
func (r *Ring) Columns() int { return r.cols }

// Add adds d to a column at time t (unix ns).
func (r *Ring) Add(t int64, col int, d int32) {
	if col >= r.cols {
		r.widen(col + 1)
	}
	b := floorDiv(t, r.width)
	if r.empty {
		r.newest, r.empty = b, false
	}
	if b > r.newest {
		r.advance(b)
	}
	if b < r.Oldest() {
		r.base[col] += int64(d)
		return
	}
	r.cells[r.slot(b)+col] += d
}

// slot is where a bucket's cells begin.
func (r *Ring) slot(bucket int64) int {
	i := bucket % r.size
	if i < 0 {
		i += r.size
	}
	return int(i) * r.stride
}

// advance makes b the newest bucket; what leaves the ring goes to the base.
func (r *Ring) advance(b int64) {
	steps := min(b-r.newest, r.size)
	for i := int64(1); i <= steps; i++ {
		cells := r.cells[r.slot(r.newest+i):][:r.cols]
		for c, v := range cells {
			r.base[c] += int64(v)
			cells[c] = 0
		}
	}
	r.newest = b
}

// widen makes room for cols columns.
func (r *Ring) widen(cols int) {
	if cols > r.stride {
		stride := max(8, cols, r.stride*2)
		cells := make([]int32, int(r.size)*stride)
		for i := range int(r.size) {
			copy(cells[i*stride:], r.cells[i*r.stride:][:r.cols])
		}
		r.cells, r.stride = cells, stride
	}
	r.base = append(r.base, make([]int64, cols-r.cols)...)
	r.cols = cols
}

// Get is the number in one column of one bucket; outside the ring it is 0.
func (r *Ring) Get(bucket int64, col int) int64 {
	if r.empty || col >= r.cols || bucket > r.newest || bucket < r.Oldest() {
		return 0
	}
	return int64(r.cells[r.slot(bucket)+col])
}

// Levels is, for each of the buckets from..to and one column, the sum of
// everything up to the end of that bucket. A bucket older than the ring has
// the level of the base.
func (r *Ring) Levels(col int, from, to int64) []int64 {
	levels := make([]int64, 0, max(0, to-from+1))
	if r.empty || col >= r.cols {
		return append(levels, make([]int64, max(0, to-from+1))...)
	}
	level := r.base[col]
	oldest := r.Oldest()
	for b := min(from, oldest); b <= to; b++ {
		if b >= oldest && b <= r.newest {
			level += int64(r.cells[r.slot(b)+col])
		}
		if b >= from {
			levels = append(levels, level)
		}
	}
	return levels
}

// Bytes is the memory that the ring holds.
func (r *Ring) Bytes() int { return 4*len(r.cells) + 8*cap(r.base) }

// Clone returns a copy that shares nothing with r.
func (r *Ring) Clone() *Ring {
	c := *r
	c.cells, c.base = slices.Clone(r.cells), slices.Clone(r.base)
	return &c
}

// Save writes the ring; buckets without a count cost one byte.
func (r *Ring) Save(w *wire.Writer) {
	w.Bool(r.empty)
	w.Int(r.newest)
	w.Ints(r.base)
	if r.empty {
		return
	}
	for b := r.Oldest(); b <= r.newest; b++ {
		cells := r.cells[r.slot(b):][:r.cols]
		w.Uint(uint64(r.cols - count(cells, 0)))
		for c, v := range cells {
			if v != 0 {
				w.Uint(uint64(c))
				w.Int(int64(v))
			}
		}
	}
}

func count(cells []int32, v int32) (n int) {
	for _, c := range cells {
		if c == v {
			n++
		}
	}
	return n
}

// errColumns is a ring whose buckets name columns that it does not have.
var errColumns = errors.New("a bucket has more counts than columns")

// Load replaces the counts by saved ones; width and size stay.
func (r *Ring) Load(in *wire.Reader) {
	*r = *New(r.width, r.size)
	empty, newest, base := in.Bool(), in.Int(), in.Ints()
	if in.Err() != nil || len(base) > 1<<20 {
		in.Fail(errColumns)
		return
	}
	if len(base) > 0 {
		r.widen(len(base))
		copy(r.base, base)
	}
	r.empty, r.newest = empty, newest
	if empty {
		return
	}
	for b := r.Oldest(); b <= r.newest && in.Err() == nil; b++ {
		n := in.Len()
		if n > r.cols {
			in.Fail(errColumns)
			return
		}
		for range n {
			c := in.Index(r.cols)
			v := in.Int()
			if in.Err() != nil {
				return
			}
			r.cells[r.slot(b)+int(c)] = int32(v)
		}
	}
}
