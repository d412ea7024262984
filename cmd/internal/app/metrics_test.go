package app

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/telemetry"
)

// TestMetricsOfARunningServer: each metric that a rule or a panel names is on the
// page of a server that has done something of everything.
func TestMetricsOfARunningServer(t *testing.T) {
	s := serving(t, func(o *Options) { o.Config.Connectors = []config.Connector{webhook("shop", "a secret of the shop")} })
	c := s.client(t)
	for i := range 30 {
		send(t, c, fmt.Sprintf("+1555010%04d", i), "start", "qr_received", "qr_scanned", "sync_completed", "qr_scanned")
	}
	send(t, c, "+15550100001", "logout", "sync_completed")
	nc, err := s.Connect("worker")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := worker.Start(t.Context(), nc, worker.Config{Name: "waha-1", Boot: "b-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(context.WithoutCancel(t.Context())) }()
	s.ask(t, "", http.MethodPost, "/hooks/plain/shop", "{}")
	s.everybody(t)

	var text string
	until(t, "a snapshot and the views are saved", func() bool {
		var code int
		if code, text = s.ask(t, auth.Reader, http.MethodGet, "/metrics", ""); code != http.StatusOK {
			t.Fatalf("/metrics: %d %s", code, text)
		}
		return strings.Contains(text, "\nmuster_snapshot_age_seconds{")
	})
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	// The views are saved every five minutes, which is longer than a test.
	waits := map[string]bool{"muster_view_checkpoint_age_seconds": true}
	for file, body := range map[string][]byte{"rules": telemetry.Rules, "dashboard": telemetry.Dashboard} {
		for _, n := range regexp.MustCompile(`\b(muster|go|process)_[a-z_]+`).FindAllString(string(body), -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				n = strings.TrimSuffix(n, suffix)
			}
			if families[n] == nil && !waits[n] {
				t.Errorf("the %s name %s, which the page of a running server does not have", file, n)
			}
		}
	}
	if strings.Contains(text, "1555010") {
		t.Error("an account stands on the page")
	}
	for _, line := range []string{
		`muster_accounts{class="ready",machine="whatsapp@2",state="RUNNING"} 29`,
		`muster_accounts{class="human",machine="whatsapp@2",state="LOGGED_OUT"} 1`,
		`muster_outcomes_total{outcome="applied"} 121`,
		`muster_time_to_running_seconds_count{kind="onboarding"} 30`,
		`muster_workers{state="live"} 1`,
		`muster_tokens{status="live"} 4`,
		`muster_connector_deliveries_total{kind="plain",result="unauthenticated",source="shop"} 1`,
		`muster_ready 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
}
