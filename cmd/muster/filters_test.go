package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain/machine"
)

// FuzzFilterFlags gives the flags that filter any text, a flag for each line. What
// is taken is what a server takes: times that it can read, words that it knows.
func FuzzFilterFlags(f *testing.F) {
	for _, text := range []string{
		"--state=RUNNING\n--class=ready\n--label=pool=eu\n--label=tier=gold", "--since-from=10m\n--since-before=2026-01-01T10:00:00Z", "--since-from=-1h", "--since-from=2562047h47m16.854775807s",
		"--since-before=9999-12-31T23:59:59Z", "--since-from=0000-01-01T00:00:00+23:59", "--label==x", "--label=a=b,c=d", "--label=\"a=b", "--prefix=\n--machine=whatsapp@2\n--source=\n--attention=scan_qr",
		"--condition=flapping\n--desired=stop", "--class=nonsense", "--", "-x", "RUNNING",
		"--trigger=start,stop\n--outcome=applied\n--since=5m", "--since={\"0\":12}\n-n 5", "--since=18446744073709551615", "--since=2026-01-01T10:00:00Z\n--account=x", "--outcome=x", "--since=\"",
	} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		var req api.ListRequest
		list := &cobra.Command{Use: "list"}
		accountFilters(list, &req)
		if list.ParseFlags(args) == nil && checkFilters(&req, now) == nil {
			taken(t, text, &req)
		}
		tail := newTail(&cli{})
		if tail.ParseFlags(args) != nil {
			return
		}
		since, _ := tail.Flags().GetString("since")
		outcomes, _ := tail.Flags().GetStringSlice("outcome")
		flags := tailFlags{since: since, outcomes: outcomes}
		cfg, err := flags.config(now)
		if err == nil && since != "" && cfg.First == 0 && cfg.Since.IsZero() && cfg.After == nil {
			t.Fatalf("--since %q is taken for nothing", since)
		}
	})
}

// taken holds filters that were taken to what a server takes.
func taken(t *testing.T, text string, req *api.ListRequest) {
	t.Helper()
	for _, at := range []string{req.SinceFrom, req.SinceBefore} {
		if at == "" {
			continue
		}
		read, err := time.Parse(time.RFC3339, at)
		if err != nil || time.Unix(0, read.UnixNano()).UTC() != read.UTC() {
			t.Fatalf("%q: the time %q is sent, which no server can read (%v)", text, at, err)
		}
	}
	if req.Class != "" && !slices.Contains(machine.Classes(), req.Class) {
		t.Fatalf("%q: the class %q is sent, which there is not", text, req.Class)
	}
}
