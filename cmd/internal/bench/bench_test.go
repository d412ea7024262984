package bench

import (
	"context"
	"testing"
	"time"
)

// TestAppendReports runs the measurement itself, briefly: it must give figures
// for everything that was asked for.
func TestAppendReports(t *testing.T) {
	rep, err := Append(t.Context(), AppendConfig{
		Dir: t.TempDir(), Syncs: []string{"group", "interval"}, Partitions: []int{1, 2}, Callers: []int{1, 8}, During: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Runs) != 8 || rep.Raw.Rate <= 0 || rep.Echo.Rate <= 0 {
		t.Fatalf("%+v", rep)
	}
	for _, r := range rep.Runs {
		if r.Rate <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%+v", r)
		}
	}
}

func TestInboxReports(t *testing.T) {
	rep, err := Inbox(t.Context(), InboxConfig{
		Dir: t.TempDir(), Sync: "group", Partitions: 2, Callers: 8, During: 100 * time.Millisecond, Messages: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Append.Rate <= 0 || rep.Publish <= 0 || rep.Drain <= 0 || rep.Ratio <= 0 {
		t.Errorf("%+v", rep)
	}
}

// BenchmarkAppend is 256 callers against one server, for profiles.
func BenchmarkAppend(b *testing.B) {
	ctx := context.Background()
	s, err := serve(ctx, b.TempDir(), "group", 4)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, err := sendLoad(ctx, s.app.NATSURL(), 256, 5*time.Second, "p")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(f.Rate, "triggers/s")
		b.ReportMetric(f.P50, "p50-ms")
	}
	if err := s.stop(); err != nil {
		b.Fatal(err)
	}
}
