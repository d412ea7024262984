package readytime_test

import (
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/readytime"
)

// TestLengths counts the onboardings of 1, 2 … 20 s, of which the last account
// still waits.
func TestLengths(t *testing.T) {
	v := readytime.New(2, lifecycle.Registry())
	seq := [2]uint64{}
	apply := func(n int, from, trigger, to string, at time.Duration) {
		p := n % 2
		seq[p]++
		v.Apply(projections.Place{Partition: p, Seq: seq[p], Account: uint32(n / 2)}, &domain.Event{
			Account: domain.AccountID(rune('a' + n)), Kind: domain.KindSession, Machine: "whatsapp@2", Trigger: trigger, Outcome: domain.Applied,
			From: from, To: to, At: int64(at) + 1,
		})
	}
	for n := range 20 {
		apply(n, "IDLE", "start", "CONNECTING", 0)
		if n < 19 {
			apply(n, "CONNECTING", "connection_ready", "RUNNING", time.Duration(n+1)*time.Second)
		}
	}
	within, all, seconds := v.Lengths(readytime.Onboarding, []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Hour})
	if !slices.Equal(within, []uint64{0, 5, 19}) || all != 19 || seconds != 190 {
		t.Errorf("%v of %d, %v s in all; want [0 5 19] of 19, 190 s", within, all, seconds)
	}
	if on, re := v.Open(readytime.Onboarding), v.Open(readytime.Recovery); on != 1 || re != 0 {
		t.Errorf("%d onboardings and %d recoveries are open, want 1 and 0", on, re)
	}
	if within, all, _ := v.Lengths(readytime.Recovery, []time.Duration{time.Hour}); within[0] != 0 || all != 0 {
		t.Errorf("%v of %d recoveries, want none", within, all)
	}
}
