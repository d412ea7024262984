// Package lengths counts how long something took, in buckets 5 % wide, so that
// any number of lengths takes the same 2.2 kB and a quantile is right to 2.5 %.
//
// It owns the buckets. It cannot fail. It is not safe for use by several
// goroutines.
package lengths

import (
	"math"
	"time"

	"github.com/musterhq/muster/projections/internal/wire"
)

// Lengths are counted lengths of time. The zero Lengths are empty and take no
// buckets.
type Lengths struct {
	N       int
	buckets []uint32 // nil: none
}

// The buckets: number 0 is below first, number i from first × ratio^(i−1).
const (
	first   = time.Millisecond
	ratio   = 1.05
	buckets = 560 // the last one is beyond 20 years
)

// Bytes is what the buckets of Lengths take that are not empty.
const Bytes = 4 * buckets

var logRatio = math.Log(ratio)

// bucket is the number of the bucket that a length falls into.
func bucket(d time.Duration) int {
	if d < first {
		return 0
	}
	return min(buckets-1, 1+int(math.Log(float64(d)/float64(first))/logRatio))
}

// middle is a length in the middle of a bucket.
func middle(number int) time.Duration {
	if number == 0 {
		return 0
	}
	return time.Duration(float64(first) * math.Exp((float64(number)-0.5)*logRatio))
}

// Add counts one length; below a millisecond it is none.
func (l *Lengths) Add(d time.Duration) {
	if l.buckets == nil {
		l.buckets = make([]uint32, buckets)
	}
	l.buckets[bucket(d)]++
	l.N++
}

// Merge adds all that o has counted.
func (l *Lengths) Merge(o *Lengths) {
	if o.buckets == nil {
		return
	}
	if l.buckets == nil {
		l.buckets = make([]uint32, buckets)
	}
	for i, n := range o.buckets {
		l.buckets[i] += n
	}
	l.N += o.N
}

// Quantile is the length that a share q (0 to 1) did not exceed; ok is false when
// there is none.
func (l *Lengths) Quantile(q float64) (d time.Duration, ok bool) {
	if l.N == 0 {
		return 0, false
	}
	rank := max(1, int(math.Ceil(q*float64(l.N))))
	sum := 0
	for i, n := range l.buckets {
		if sum += int(n); sum >= rank {
			return middle(i), true
		}
	}
	return middle(buckets - 1), true
}

// Shorter is the share of those that were shorter than d, to within the width of
// a bucket; ok is false when there is none.
func (l *Lengths) Shorter(d time.Duration) (share float64, ok bool) {
	if l.N == 0 {
		return 0, false
	}
	sum := 0
	for _, n := range l.buckets[:bucket(d)] {
		sum += int(n)
	}
	return float64(sum) / float64(l.N), true
}

// Save writes the lengths.
func (l *Lengths) Save(out *wire.Writer) {
	out.Bool(l.buckets != nil)
	for _, n := range l.buckets {
		out.Uint(uint64(n))
	}
}

// Load replaces the lengths by saved ones.
func (l *Lengths) Load(in *wire.Reader) {
	*l = Lengths{}
	if !in.Bool() {
		return
	}
	l.buckets = make([]uint32, buckets)
	for i := range l.buckets {
		l.buckets[i] = uint32(in.Uint())
		l.N += int(l.buckets[i])
	}
}
