package telemetry

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	projected "github.com/musterhq/muster/projections/transitions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

// scrape reads the page.
func scrape(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return families
}

// all are sources that have something of everything.
func all() Sources {
	return Sources{
		Ready:  func() bool { return true },
		Sync:   func() string { return "group" },
		Replay: func() time.Duration { return time.Second },
		Distribution: func() distribution.Counts {
			return distribution.Counts{ByMachine: map[string]map[string]int{"whatsapp@2": {"RUNNING": 3, "DISCONNECTED": 1}}}
		},
		ClassOf: func(_, state string) string {
			return map[string]string{"RUNNING": "ready", "DISCONNECTED": "down"}[state]
		},
		Transitions: func() projected.Numbers {
			edge := projected.EdgeCount{Edge: projected.Edge{From: "IDLE", Trigger: "start", To: "CONNECTING"}, Count: 4}
			return projected.Numbers{
				Edges: []projected.EdgeCount{edge}, Rejected: []projected.EdgeCount{edge}, ByReason: map[string]uint64{"401": 1},
				Outcomes: map[string]uint64{"applied": 4, "rejected": 1},
			}
		},
		ReadyTime: func() *readytime.View { return readytime.New(1, lifecycle.Registry()) },
		Attention: func() map[string]int { return map[string]int{"scan_qr": 2} },
		Views: func() (projections.Status, map[int]uint64) {
			return projections.Status{SavedAt: time.Now().Add(-time.Minute), Alarms: map[projections.AlarmKind]uint64{projections.Unreadable: 2}}, map[int]uint64{0: 7}
		},
		Connectors: func() []hub.Stats { return []hub.Stats{{Kind: "waha", Name: "waha-1", Facts: 5, Last: time.Now()}} },
		Inbox:      func() (inbox.Stats, uint64, bool) { return inbox.Stats{Waiting: 3}, 2, true },
		Alerts:     func() (alert.Counts, bool) { return alert.Counts{Delivered: 1}, true },
		Feed:       func() feed.Stats { return feed.Stats{Dropped: 1} },
		Workers:    func() map[string]int { return map[string]int{"live": 1} },
		Tokens:     func() map[string]int { return map[string]int{"live": 1} },
		DiskFree:   func() (uint64, bool) { return 1 << 30, true },
	}
}

// full is a page with a series of each metric.
func full() *Metrics {
	m := New(all())
	now := time.Now()
	m.Writers.Group(&command.Group{Partition: 0, Began: now, Judged: now, Stored: now.Add(time.Millisecond), Records: 3, Last: 9})
	m.Writers.Answered(domain.Applied, nil, time.Millisecond)
	m.Writers.Snapshot(0, now.Add(-time.Hour))
	return m
}

// TestGolden pins the names, types and labels of the metrics.
func TestGolden(t *testing.T) {
	var b strings.Builder
	families := scrape(t, full())
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "muster_") {
			continue // of the runtime and the process, which are not ours to name
		}
		f := families[name]
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		fmt.Fprintf(&b, "%s %s {%s}\n", name, strings.ToLower(f.GetType().String()), strings.Join(labels, ","))
	}
	const path = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the metrics differ from %s (-update writes it anew):\n%s\nwant\n%s", path, b.String(), want)
	}
}

// TestEveryRowHasASeries: what the table names is on the page.
func TestEveryRowHasASeries(t *testing.T) {
	families := scrape(t, full())
	for _, m := range collected {
		if families[m.name] == nil {
			t.Errorf("%s is in the table and not on the page", m.name)
		}
	}
	if families["go_goroutines"] == nil || families["process_cpu_seconds_total"] == nil {
		t.Error("the numbers of the runtime and the process are missing")
	}
}

// TestValues: a few numbers as they must come out.
func TestValues(t *testing.T) {
	w := httptest.NewRecorder()
	full().Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`muster_accounts{class="ready",machine="whatsapp@2",state="RUNNING"} 3`,
		`muster_accounts{class="down",machine="whatsapp@2",state="DISCONNECTED"} 1`,
		`muster_transitions_total{from="IDLE",to="CONNECTING",trigger="start"} 4`,
		`muster_outcomes_total{outcome="stale"} 0`,
		`muster_outcomes_total{outcome="rejected"} 1`,
		`muster_view_lag_records{partition="0"} 2`,
		`muster_log_position{partition="0"} 9`,
		`muster_history_alarms_total{kind="unreadable"} 2`,
		`muster_history_alarms_total{kind="gap_in_stream"} 0`,
		`muster_group_records_sum 3`,
		`muster_append_seconds_count{result="stored"} 1`,
		`muster_answer_seconds_count{outcome="applied"} 1`,
		`muster_connector_deliveries_total{kind="waha",result="fact",source="waha-1"} 5`,
		`muster_inbox_parked 2`,
		`muster_sync_mode{mode="group"} 1`,
		`muster_ready 1`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}

// TestBeforeTheStartIsDone: the page is there, and says that the server is not.
func TestBeforeTheStartIsDone(t *testing.T) {
	families := scrape(t, New(Sources{Ready: func() bool { return false }, ReadyTime: func() *readytime.View { return nil }}))
	if v := families["muster_ready"].GetMetric()[0].GetGauge().GetValue(); v != 0 {
		t.Errorf("muster_ready is %v, want 0", v)
	}
	if families["muster_accounts"] != nil {
		t.Error("there are accounts before there is a view")
	}
}

// TestSeriesAreBounded: a fleet of a million accounts, in which everything that a
// user can name is another one each time, has a page as large as that of any other.
func TestSeriesAreBounded(t *testing.T) {
	src := all()
	const many = 1_000_000
	src.Distribution = func() distribution.Counts {
		c := distribution.Counts{ByMachine: map[string]map[string]int{}}
		for i := range many / 100 {
			states := map[string]int{}
			for s := range 10 {
				states[fmt.Sprintf("STATE_%d_%d", i, s)] = 10
			}
			c.ByMachine[fmt.Sprintf("machine-%d@1", i)] = states
		}
		return c
	}
	src.Transitions = func() projected.Numbers {
		n := projected.Numbers{ByReason: map[string]uint64{}}
		for i := range 20_000 {
			e := projected.EdgeCount{Edge: projected.Edge{From: fmt.Sprint("F", i), Trigger: fmt.Sprint("t", i), To: "\xff"}, Count: 1}
			n.Edges, n.Rejected = append(n.Edges, e), append(n.Rejected, e)
			n.ByReason[fmt.Sprint("reason-", i)] = 1
		}
		return n
	}
	src.Attention = func() map[string]int {
		n := map[string]int{}
		for i := range 5000 {
			n[fmt.Sprint("kind-", i)] = 1
		}
		return n
	}
	src.Connectors = func() []hub.Stats {
		var out []hub.Stats
		for i := range 5000 {
			out = append(out, hub.Stats{Kind: "waha", Name: fmt.Sprint("waha-", i), Facts: 1, Last: time.Now()})
		}
		return out
	}
	m := New(src)
	for p := range 5000 {
		m.Writers.Group(&command.Group{Partition: p, Records: 1, Last: 1})
		m.Writers.Snapshot(p, time.Now())
	}
	for range 2 { // the second scrape has the same series
		series, sum := 0, 0.0
		for name, f := range scrape(t, m) {
			for _, s := range f.Metric {
				switch {
				case s.Histogram != nil:
					series += len(s.Histogram.Bucket) + 2
				default:
					series++
				}
				if name == "muster_accounts" {
					sum += s.GetGauge().GetValue()
				}
			}
		}
		if series > 3000 {
			t.Errorf("the page has %d series; 3000 are the most", series)
		}
		if sum != many {
			t.Errorf("the page has %v accounts, want %d: what has no series of its own must be in \"other\"", sum, many)
		}
	}
}

// TestACounterNeverFalls: a value that has a series keeps it, and what is summed up
// as "other" only grows, whatever comes in which order.
func TestACounterNeverFalls(t *testing.T) {
	b := newBound(3)
	last := map[string]float64{}
	for round := range 50 {
		got := b.sum(1, func(add func(float64, ...string)) {
			for i := range 10 {
				add(float64(round+i), fmt.Sprint("v", (i*7+round)%10))
			}
		})
		if len(got) > 4 {
			t.Fatalf("%d series, want 4 at most", len(got))
		}
		total := 0.0
		for _, s := range got {
			total += s.value
			if round > 0 && last[s.labels[0]] == 0 && s.value != 0 && s.labels[0] != other && round > 1 {
				t.Errorf("round %d: %s has a series of its own now", round, s.labels[0])
			}
			last[s.labels[0]] = s.value
		}
		if want := float64(10*round + 45); total != want {
			t.Errorf("round %d: the series add up to %v, want %v", round, total, want)
		}
	}
	if b.capped() != 3 {
		t.Errorf("%d values are known to be capped, want 3: they are counted up to the bound", b.capped())
	}
}

var named = regexp.MustCompile(`\b(muster|go|process)_[a-z_]+`)

// namesIn are the metrics that a text of expressions names.
func namesIn(text []byte) []string {
	found := map[string]bool{}
	for _, n := range named.FindAllString(string(text), -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			n = strings.TrimSuffix(n, suffix)
		}
		found[n] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestRulesAndPanelsNameWhatThereIs: each metric of a rule or a panel is on the
// page, and each metric of ours is shown on a panel.
func TestRulesAndPanelsNameWhatThereIs(t *testing.T) {
	families := scrape(t, full())
	for file, text := range map[string][]byte{"rules.yaml": Rules, "dashboard.json": Dashboard} {
		names := namesIn(text)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics only: %v", file, len(names), names)
		}
		for _, n := range names {
			if families[n] == nil {
				t.Errorf("%s names %s, which is not on the page", file, n)
			}
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "muster_") && !slices.Contains(namesIn(Dashboard), name) {
			t.Errorf("%s is on no panel of the dashboard", name)
		}
	}
}

// TestRules runs the unit tests of the rules with promtool.
func TestRules(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		const missing = "promtool is not installed: it comes with Prometheus (on Debian: apt-get install prometheus)"
		if os.Getenv("MUSTER_PROMTOOL") == "required" {
			t.Fatal(missing)
		}
		t.Skip("the alert rules were NOT TRIED: " + missing)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests, err := os.ReadFile("rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(Rules, -1) {
		for _, what := range []string{" fires", " is quiet"} {
			if !bytes.Contains(tests, []byte(string(m[1])+what)) {
				t.Errorf("no unit test says that %s%s", m[1], what)
			}
		}
	}
}
