package readytime

import (
	"testing"
	"time"
)

// TestWindowsAreBounded: hours and days that lie too far back are forgotten, and
// what began in them is not entered any more.
func TestWindowsAreBounded(t *testing.T) {
	s := newShard(nil)
	day := int64(24 * time.Hour)
	for n := range int64(400) { // one episode every six hours, over a hundred days
		s.enterBegan(open{kind: Recovery, since: n * day / 4}, Reached, time.Minute)
	}
	s.enterBegan(open{kind: Recovery, since: 0}, Reached, time.Minute)
	hours, days := 0, 0
	for key := range s.began {
		if key.days {
			days++
		} else {
			hours++
		}
	}
	if days != DaysKept+1 || hours != HoursKept/6+1 {
		t.Errorf("%d days and %d hours are kept, want %d and %d", days, hours, DaysKept+1, HoursKept/6+1)
	}
}

func TestLast(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0:                      "2026-03-10T12:00:00Z",
		time.Hour:              "2026-03-10T11:00:00Z",
		48 * time.Hour:         "2026-03-08T12:00:00Z",
		49 * time.Hour:         "2026-03-08T00:00:00Z",
		7 * 24 * time.Hour:     "2026-03-03T00:00:00Z",
		1_000 * 24 * time.Hour: "2025-12-10T00:00:00Z",
	} {
		if got := time.Unix(0, Last(d, now.UnixNano()).From).UTC().Format(time.RFC3339); got != want {
			t.Errorf("the last %v begin at %s, want %s", d, got, want)
		}
	}
	if got := stepOfTime(-1, time.Hour); got != -1 {
		t.Errorf("the hour before 1970 is number %d, want -1", got)
	}
}
