package bench

import (
	"testing"
	"time"
)

// TestQueryReports runs the measurement itself, briefly: it must give figures
// for everything that it asks, with the triggers coming in.
func TestQueryReports(t *testing.T) {
	rep, err := Query(t.Context(), QueryConfig{Dir: t.TempDir(), Accounts: 500, Events: 2000, Rate: 200, Callers: 2, During: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Runs) != 18 || rep.Accounts != 500 || rep.Events < 1990 || rep.Events > 2010 || rep.StartS <= 0 || rep.Bytes <= 0 || rep.Triggers <= 0 || rep.Echo.Rate <= 0 {
		t.Fatalf("%+v", rep)
	}
	for _, r := range rep.Runs {
		if r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%+v", r)
		}
	}
}
