package eventlogtest

import (
	"testing"

	"github.com/musterhq/muster/eventlog"
)

// Open returns a new and empty log; the suite calls it for every case. It
// registers with t whatever must be closed.
type Open func(t *testing.T, partitions int) eventlog.Log

// Run holds a log to the contract of eventlog.Log.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"AppendAndRead", testAppendAndRead},
		{"OddAccounts", testOddAccounts},
		{"GuardConflicts", testGuardConflicts},
		{"GroupOrderWithinAccount", testGroupOrder},
		{"FailureStaysWithinAccount", testFailureStaysWithinAccount},
		{"RefusedByTheContract", testRefusedByTheContract},
		{"LargeGroup", testLargeGroup},
		{"CallerKeepsItsSlices", testCallerKeepsItsSlices},
		{"EndedContextIsUnknown", testEndedContext},
		{"PartitionsAreApart", testPartitionsAreApart},
		{"Last", testLast},
		{"AccountFrom", testAccountFrom},
		{"BackFrom", testBackFrom},
		{"ReadEndsWhereItBegan", testReadEndsWhereItBegan},
		{"ReadAfter", testReadAfter},
		{"ReadStopsEarly", testReadStopsEarly},
		{"ReadEndedContextIsAnError", testReadEndedContext},
		{"FollowGoesOn", testFollowGoesOn},
		{"FollowFromAnySequence", testFollowFromAnySequence},
		{"FollowEndsQuietly", testFollowEndsQuietly},
		{"Info", testInfo},
		{"Sync", testSync},
		{"NoSuchPartition", testNoSuchPartition},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}
