package ring

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/musterhq/muster/projections/internal/wire"
)

// plain is a ring without bounds.
type plain map[[2]int64]int64 // bucket, column

func (p plain) levels(col int, from, to int64) []int64 {
	var out []int64
	for b := from; b <= to; b++ {
		sum := int64(0)
		for at, n := range p {
			if at[1] == int64(col) && at[0] <= b {
				sum += n
			}
		}
		out = append(out, sum)
	}
	return out
}

// TestAgainstAPlainCount adds at times that go forward, back, far ahead and
// before 1970, into more and more columns, and saves and loads in between.
func TestAgainstAPlainCount(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r, want := New(10, 16), plain{}
		now := int64(-500)
		for range 400 {
			switch now += rng.Int64N(12); rng.IntN(40) {
			case 0:
				now += 300 // everything falls out
			case 1:
				r = reload(t, r)
			}
			at, col, d := now-rng.Int64N(100), rng.IntN(1+rng.IntN(30)), int32(rng.IntN(5)-2)
			r.Add(at, col, d)
			want[[2]int64{floorDiv(at, 10), int64(col)}] += int64(d)
		}
		newest, ok := r.Newest()
		if !ok {
			t.Fatal("nothing was added")
		}
		for col := range r.Columns() {
			from, to := r.Oldest(), newest+3
			got := r.Levels(col, from, to)
			if w := want.levels(col, from, to); !slices.Equal(got, w) {
				t.Fatalf("seed %d, column %d: got %v, want %v", seed, col, got, w)
			}
			for b := from; b <= newest; b++ {
				if r.Get(b, col) != want[[2]int64{b, int64(col)}] {
					t.Fatalf("seed %d, column %d, bucket %d: %d, want %d", seed, col, b, r.Get(b, col), want[[2]int64{b, int64(col)}])
				}
			}
			if r.Get(from-1, col) != 0 || r.Get(newest+1, col) != 0 || r.Get(newest, 1000) != 0 {
				t.Fatal("outside of the ring stands a count")
			}
		}
	}
}

func reload(t *testing.T, r *Ring) *Ring {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	r.Save(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	loaded := New(10, 16)
	in := wire.NewReader(&b)
	loaded.Load(in)
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestEmpty(t *testing.T) {
	r := reload(t, New(10, 16))
	if _, ok := r.Newest(); ok {
		t.Error("an empty ring has a newest bucket")
	}
	if got := r.Levels(0, 5, 7); !slices.Equal(got, []int64{0, 0, 0}) {
		t.Errorf("levels of an empty ring: %v", got)
	}
	if r.Bytes() != 0 {
		t.Errorf("an empty ring holds %d bytes", r.Bytes())
	}
}

func TestBuckets(t *testing.T) {
	r := New(60, 4)
	for at, want := range map[int64]int64{0: 0, 59: 0, 60: 1, -1: -1, -60: -1, -61: -2} {
		if got := r.Bucket(at); got != want {
			t.Errorf("%d is in bucket %d, want %d", at, got, want)
		}
	}
	if r.Start(-2) != -120 {
		t.Errorf("bucket -2 begins at %d", r.Start(-2))
	}
}
