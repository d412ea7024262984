package readytime

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreOnePerCentWide(t *testing.T) {
	for d := time.Millisecond; d < 400*24*time.Hour; d = d*21/20 + 1 {
		told := bucketSeconds(bucketOf(d))
		if off := math.Abs(told-d.Seconds()) / d.Seconds(); off > 0.0051 {
			t.Fatalf("%v is told as %v s, %.2f %% off", d, told, 100*off)
		}
	}
	if n := bucketOf(365 * 24 * time.Hour); n > 2500 {
		t.Errorf("a year is in bucket %d", n)
	}
	if bucketOf(0) != 0 || bucketSeconds(0) != 0 {
		t.Error("an episode without length is told as one with a length")
	}
	if bucketOf(math.MaxInt64) < 2500 {
		t.Error("the longest duration is in an early bucket")
	}
}

// TestCompression: a sample with more durations than there is room for keeps
// the count and the mean exactly, and quantiles within one bucket.
func TestCompression(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var small, large sample
	var all []float64
	for range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(90*time.Second))
		small.add(d, 1000)
		large.add(d, 1<<20)
		all = append(all, d.Seconds())
	}
	if small.exact != nil || len(large.exact) != 20_000 {
		t.Fatalf("%d exact durations where none, and %d where 20000 were expected", len(small.exact), len(large.exact))
	}
	if small.n != 20_000 || *small.mean() != *large.mean() {
		t.Errorf("count %d, mean %v; want 20000, %v", small.n, *small.mean(), *large.mean())
	}
	if len(small.buckets) > 1500 {
		t.Errorf("%d buckets", len(small.buckets))
	}
	slices.Sort(all)
	for _, p := range []float64{0.1, 0.5, 0.9, 0.99} {
		want := all[int(p*20_000)-1]
		got := Fit(small.observe(nil, Reached)).Quantile(p)
		if math.Abs(*got.Seconds-want)/want > 0.011 {
			t.Errorf("%v: %v s, want %v s", p, *got.Seconds, want)
		}
	}
}

func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var parts [3]sample
	var whole sample
	for i := range 3000 {
		d := time.Duration(rng.ExpFloat64() * float64(time.Minute))
		parts[i%3].add(d, []int{10, 5000, 5000}[i%3])
		whole.add(d, 10)
	}
	var merged sample
	for i := range parts {
		merged.merge(&parts[i])
	}
	if merged.n != whole.n || math.Abs(*merged.mean()-*whole.mean()) > 1e-9 || !slices.Equal(merged.buckets, whole.buckets) {
		t.Errorf("merged: %d, %v; whole: %d, %v", merged.n, *merged.mean(), whole.n, *whole.mean())
	}
	if len(parts[1].exact) != 1000 {
		t.Error("merging has changed what was merged")
	}
}
