package readytime

import (
	"math"
	"slices"
	"time"

	"github.com/musterhq/muster/projections/internal/wire"
)

// The widths of a sample: durations are kept exactly as long as there is room,
// then in buckets each 1 % wider than the one before, from 1 ms on. A duration
// is then told within half a per cent, in at most some 2 500 buckets for
// anything up to a year.
const (
	bucketRatio = 1.01
	firstBucket = time.Millisecond
	maxBucket   = math.MaxUint16
)

// logRatio is the width of a bucket on the logarithmic scale.
var logRatio = math.Log(bucketRatio)

// sample is a bag of durations in a bounded space. The zero sample is empty.
type sample struct {
	exact   []int64  // ns, as they came; nil once buckets is in use
	buckets []bucket // by number
	n       int
	seconds int64 // the sum of all durations: whole seconds,
	nanos   int64 // and the rest
}

type bucket struct {
	number uint16
	n      uint32
}

// add adds a duration; room is how many are kept exactly.
func (s *sample) add(d time.Duration, room int) {
	d = max(0, d)
	s.n++
	s.seconds += int64(d / time.Second)
	s.nanos += int64(d % time.Second)
	if s.buckets == nil && len(s.exact) < room {
		s.exact = append(s.exact, int64(d))
		return
	}
	s.compress()
	s.put(bucketOf(d), 1)
}

// compress moves the exact durations into buckets.
func (s *sample) compress() {
	for _, d := range s.exact {
		s.put(bucketOf(time.Duration(d)), 1)
	}
	s.exact = nil
}

func (s *sample) put(number uint16, n uint32) {
	i, found := slices.BinarySearchFunc(s.buckets, number, func(b bucket, n uint16) int { return int(b.number) - int(n) })
	if !found {
		s.buckets = slices.Insert(s.buckets, i, bucket{number: number})
	}
	s.buckets[i].n += n
}

// bucketOf is the number of a duration's bucket: 0 below firstBucket.
func bucketOf(d time.Duration) uint16 {
	if d < firstBucket {
		return 0
	}
	return uint16(min(maxBucket, 1+math.Log(float64(d)/float64(firstBucket))/logRatio))
}

// bucketSeconds is the duration that stands for a bucket: the geometric middle.
func bucketSeconds(number uint16) float64 {
	if number == 0 {
		return 0
	}
	return firstBucket.Seconds() * math.Exp((float64(number)-0.5)*logRatio)
}

// observe appends the sample's durations as observations with one end.
func (s *sample) observe(list []Observation, end End) []Observation {
	for _, d := range s.exact {
		list = append(list, Observation{Seconds: time.Duration(d).Seconds(), End: end, Episodes: 1})
	}
	for _, b := range s.buckets {
		list = append(list, Observation{Seconds: bucketSeconds(b.number), End: end, Episodes: int(b.n)})
	}
	return list
}

// mean is the plain mean in seconds, exact also when the durations are not.
func (s *sample) mean() *float64 {
	if s.n == 0 {
		return nil
	}
	m := (float64(s.seconds) + float64(s.nanos)/float64(time.Second)) / float64(s.n)
	return &m
}

// merge adds another sample to s.
func (s *sample) merge(o *sample) {
	s.n += o.n
	s.seconds += o.seconds
	s.nanos += o.nanos
	if s.buckets == nil && o.buckets == nil {
		s.exact = append(s.exact, o.exact...)
		return
	}
	s.compress()
	for _, d := range o.exact {
		s.put(bucketOf(time.Duration(d)), 1)
	}
	for _, b := range o.buckets {
		s.put(b.number, b.n)
	}
}

func (s *sample) save(w *wire.Writer) {
	w.Ints(s.exact)
	w.Uint(uint64(len(s.buckets)))
	for _, b := range s.buckets {
		w.Uint(uint64(b.number))
		w.Uint(uint64(b.n))
	}
	w.Uint(uint64(s.n))
	w.Int(s.seconds)
	w.Int(s.nanos)
}

func (s *sample) load(r *wire.Reader) {
	*s = sample{exact: r.Ints()}
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		number := r.Index(maxBucket + 1)
		s.buckets = append(s.buckets, bucket{number: uint16(number), n: uint32(r.Uint())})
	}
	s.n, s.seconds, s.nanos = r.Len(), r.Int(), r.Int()
	if len(s.exact) == 0 {
		s.exact = nil
	}
}
