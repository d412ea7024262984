package dispatch

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// TestSourceSubject sends on a source's own subject what its token may and may
// not publish.
func TestSourceSubject(t *testing.T) {
	tests := map[string]struct {
		subject, body string
		refused       string // "" = it is judged
	}{
		"its own":            {"muster.src.waha-1.acct-1", `{"trigger":"start","source":"waha-1"}`, ""},
		"escaped":            {"muster.src.a=2Eb.acct-1", `{"trigger":"start","source":"a.b"}`, ""},
		"another's":          {"muster.src.waha-1.acct-1", `{"trigger":"start","source":"waha-2"}`, `the source is "waha-2"`},
		"none":               {"muster.src.waha-1.acct-1", `{"trigger":"start"}`, `the source is ""`},
		"as an operator":     {"muster.src.waha-1.acct-1", `{"trigger":"stop","source":"waha-1","by":"user"}`, "by user"},
		"forget":             {"muster.src.waha-1.acct-1", `{"trigger":"forget","source":"waha-1"}`, "operator"},
		"set_mode":           {"muster.src.waha-1.acct-1", `{"trigger":"set_mode","source":"waha-1","data":{"mode":"supervise"}}`, "operator"},
		"set_labels":         {"muster.src.waha-1.acct-1", `{"trigger":"set_labels","source":"waha-1","data":{"labels":{}}}`, "operator"},
		"authority":          {"muster.src.waha-1.acct-1", `{"trigger":"authority","source":"waha-1","data":{"source":"waha-1"}}`, "operator"},
		"said by the remote": {"muster.src.waha-1.acct-1", `{"trigger":"stop","source":"waha-1","by":"remote"}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			judge := &fakeJudge{}
			r := newRig(t, Config{Judge: judge})
			err := bus.ErrorOf(r.ask(t, &nats.Msg{Subject: tt.subject, Data: []byte(tt.body)}))
			if tt.refused == "" {
				if err != nil || len(judge.triggers()) != 1 {
					t.Errorf("%v, %d judged; want one", err, len(judge.triggers()))
				}
				return
			}
			if !errors.Is(err, bus.ErrNotAllowed) || !strings.Contains(err.Error(), tt.refused) || len(judge.triggers()) != 0 {
				t.Errorf("%v, %d judged; want a refusal with %q", err, len(judge.triggers()), tt.refused)
			}
		})
	}
}

// TestClientBySource has the Go client send as a connector's token must.
func TestClientBySource(t *testing.T) {
	judge := &fakeJudge{}
	r := newRig(t, Config{Judge: judge})
	c := bus.NewClient(r.client, bus.ClientConfig{BySource: true, Tries: 1})
	if _, err := c.Send(t.Context(), domain.Trigger{Account: "acct-1", Name: "start", Source: "waha-1", Expect: domain.NoExpect}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), domain.Trigger{Account: "acct-1", Name: "forget", Source: "waha-1", Expect: domain.NoExpect}); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("forget: %v, want ErrNotAllowed", err)
	}
}

// TestKeptOverTheOwner: the verdict of a trigger that is to be kept is kept once and
// before it is answered, also when another process owns the partition; when nobody
// does, nothing is kept and the sender is told so.
func TestKeptOverTheOwner(t *testing.T) {
	const partitions = 2
	kept := make(chan domain.Verdict, 100)
	admit := func(s bus.Speaker, _ *domain.Trigger) (func(domain.Verdict), error) {
		if s.Token != "ada" {
			t.Errorf("the speaker is %+v", s)
		}
		return func(v domain.Verdict) { kept <- v }, nil
	}
	stranger := &fakeJudge{do: func(domain.Trigger, func(command.Answer)) error { return command.ErrNotOwner }}
	r := newRig(t, Config{Judge: stranger, Partitions: partitions, Admit: admit})
	c := bus.NewClient(r.client, bus.ClientConfig{As: "ada", Tries: 1})
	stop := domain.Trigger{Account: "acct-1", Name: "stop", By: domain.ByUser, Expect: domain.NoExpect}
	if _, err := c.Send(t.Context(), stop); !errors.Is(err, bus.ErrRetryable) || len(kept) != 0 {
		t.Fatalf("without an owner: %v, %d kept; want a refusal that may be tried again, none", err, len(kept))
	}

	owner := &fakeJudge{}
	_, e := r.process(t, Config{Judge: owner, Partitions: partitions, Admit: admit})
	for p := range partitions {
		if err := e.Serve(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.nc.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 40; n++ { // some of them come to the owner itself
		got, err := c.Send(t.Context(), stop)
		if err != nil || got.Outcome != domain.Applied || got.Version != uint64(n) || got.Seq == 0 {
			t.Fatalf("trigger %d: %+v, %v", n, got, err)
		}
		if len(kept) != n {
			t.Fatalf("%d kept when trigger %d was answered", len(kept), n)
		}
	}
	if sent := r.endpoint.Stats().Forwarded; sent < 2 {
		t.Errorf("only %d were sent on: the test did not do what it is for", sent)
	}
}
