package machine_test

import (
	"strings"
	"testing"

	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

func TestRegistry(t *testing.T) {
	r := lifecycle.Registry()
	if r.Default() != "whatsapp@2" {
		t.Errorf("default %q, want whatsapp@2", r.Default())
	}
	if err := r.Add(machine.MustCompile(lifecycle.WhatsApp1())); err == nil {
		t.Error("a name that is taken: want an error")
	}
	if err := r.Add(machine.MustCompile(shop())); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Get("shop@1"); !ok || !r.Knows("lose") || r.Knows("message_sent") || r.Knows("claim") {
		t.Error("shop@1 or its trigger is not known, or triggers of messages count as a machine's")
	}
	names := []string{}
	for _, m := range r.List() {
		names = append(names, m.Name())
	}
	if got := strings.Join(names, " "); got != "conversation@1 instance@1 message@1 message@2 shop@1 wecom@1 whatsapp@1 whatsapp@2" {
		t.Errorf("machines %s", got)
	}
	for _, bad := range []string{"message@2", "nothing@1"} {
		if err := r.SetDefault(bad); err == nil {
			t.Errorf("default %s: want an error", bad)
		}
	}
}

func TestNearest(t *testing.T) {
	r := lifecycle.Registry()
	for name, want := range map[string]string{
		"qr_recieved": "qr_received", "Start": "start", "conection_lost": "connection_lost", "message_send": "message_sent",
		"connection-ready": "connection_ready", "stpo": "stop", "elephant": "", "": "", strings.Repeat("x", 1000): "",
		"mark_stuk": "", "set_lables": "set_labels",
	} {
		if got := r.Nearest(name); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", name, got, want)
		}
	}
	if got := r.NearestMachine("whatsap@2"); got != "whatsapp@2" {
		t.Errorf("nearest machine %q", got)
	}
}

func TestDiagrams(t *testing.T) {
	small := machine.MustCompile(shop()).Mermaid()
	for _, line := range []string{"stateDiagram-v2\n", "    [*] --> OFF\n", "    state UP <<choice>>\n", "    OFF --> UP: open\n", "    ON --> OFF: close\n",
		"    SLOW --> OFF: close\n", "    ON --> LOST: lose\n", "    UP --> SLOW: blocked\n"} {
		if !strings.Contains(small, line) {
			t.Errorf("the diagram has no line %q:\n%s", line, small)
		}
	}
	all := map[string]*machine.Machine{}
	for _, m := range lifecycle.Registry().List() {
		all[m.Name()] = m
	}
	mermaid, dot := all["whatsapp@2"].Mermaid(), all["whatsapp@2"].DOT()
	for _, line := range []string{
		"    class QR_REQUIRED,LOGGED_OUT human", "    classDef human fill:#f8d7da", "    CONNECTING --> QR_REQUIRED: qr_received\n",
		"    RUNNING --> RECONNECTING: start (newer epoch)", "    READY --> DEGRADED: blocked",
		"    CONNECTING --> DISCONNECTED: reconnect_failed<br/>connection_lost<br/>connection_replaced<br/>banned<br/>connect_refused",
	} {
		if !strings.Contains(mermaid, line) {
			t.Errorf("the Mermaid diagram of whatsapp@2 has no %q", line)
		}
	}
	for _, line := range []string{
		`"CONNECTING" -> "QR_REQUIRED" [style=solid, label="qr_received"]`, `"RUNNING" -> "LOGGED_OUT" [style=dashed, label="logout"]`,
		`"LOGGED_OUT" [label="LOGGED_OUT\nhuman", style="rounded,filled", color="#b02a37"`, `"READY" [shape=diamond`,
	} {
		if !strings.Contains(dot, line) {
			t.Errorf("the DOT graph of whatsapp@2 has no %q", line)
		}
	}
}

// The CSS that dashes an exceptional edge names it by its place in the text.
func TestDashesNameTheirEdges(t *testing.T) {
	m := machine.MustCompile(shop())
	text := m.Mermaid()
	var edges []string
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "-->") {
			edges = append(edges, strings.TrimSpace(line))
		}
	}
	solid := map[string]bool{"[*] --> OFF": true, "OFF --> UP: open": true, "LOST --> UP: open": true, "UP --> ON: free": true}
	for i, edge := range edges {
		dashed := strings.Contains(text, "[id$=edge"+string(rune('0'+i))+"]")
		if dashed == solid[edge] {
			t.Errorf("edge %d, %q: dashed %v", i, edge, dashed)
		}
	}
}
