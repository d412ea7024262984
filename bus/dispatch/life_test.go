package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

func TestDiscovery(t *testing.T) {
	r := newRig(t, Config{Judge: &fakeJudge{}})
	r.ask(t, &nats.Msg{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`)})
	var info micro.Info
	if err := json.Unmarshal(r.ask(t, nats.NewMsg("$SRV.INFO.muster")).Data, &info); err != nil {
		t.Fatal(err)
	}
	if info.Version != "1.2.3" || len(info.Endpoints) != 2 || info.Endpoints[0].Name != "cmd" || info.Endpoints[0].Subject != "muster.cmd.*" ||
		info.Endpoints[1].Name != "src" || info.Endpoints[1].Subject != "muster.src.*.*" {
		t.Errorf("info %+v", info)
	}
	for _, name := range []string{"request", "response"} {
		if !json.Valid([]byte(info.Endpoints[0].Metadata[name])) {
			t.Errorf("the %s schema is not JSON: %s", name, info.Endpoints[0].Metadata[name])
		}
	}
	var stats micro.Stats
	if err := json.Unmarshal(r.ask(t, nats.NewMsg("$SRV.STATS.muster")).Data, &stats); err != nil {
		t.Fatal(err)
	}
	if len(stats.Endpoints) != 2 || stats.Endpoints[0].NumRequests != 1 {
		t.Fatalf("stats %+v", stats)
	}
	var own Stats
	if err := json.Unmarshal(stats.Endpoints[0].Data, &own); err != nil {
		t.Fatal(err)
	}
	if own != (Stats{Answered: 1}) {
		t.Errorf("own stats %+v", own)
	}
}

func TestNobodyWaits(t *testing.T) {
	judged := make(chan domain.Trigger, 2)
	r := newRig(t, Config{Judge: &fakeJudge{do: func(t domain.Trigger, done func(command.Answer)) error {
		judged <- t
		done(applied(t, 1))
		return nil
	}}})
	for _, m := range []*nats.Msg{
		{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`)},                  // no reply subject
		{Subject: "muster.cmd.b", Data: []byte(`{"trigger":"start"}`), Reply: "no.one"}, // nobody listens there
	} {
		if err := r.client.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		select {
		case <-judged:
		case <-time.After(within):
			t.Fatal("not judged")
		}
	}
}

// TestStopAnswersEverybody: whoever was heard before the end gets an answer,
// though the Judge gives it only after Stop has begun.
func TestStopAnswersEverybody(t *testing.T) {
	const n = 200
	held := make(chan func(), n)
	r := newRig(t, Config{Judge: &fakeJudge{do: func(t domain.Trigger, done func(command.Answer)) error {
		held <- func() { done(applied(t, 1)) }
		return nil
	}}})
	answers := make(chan *nats.Msg, n)
	sub, err := r.client.ChanSubscribe("answers", answers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for i := range n {
		m := &nats.Msg{Subject: fmt.Sprintf("muster.cmd.a%d", i), Reply: "answers", Data: []byte(`{"trigger":"start"}`)}
		if err := r.client.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.client.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop(t, r.service)
	}()
	for range n {
		select {
		case <-stopped:
			t.Fatal("stopped before the last answer")
		case release := <-held:
			release()
		case <-time.After(within):
			t.Fatal("a request got lost")
		}
	}
	<-stopped
	for i := range n {
		select {
		case <-answers:
		case <-time.After(within):
			t.Fatalf("%d of %d answers", i, n)
		}
	}
}

func TestStopIsBounded(t *testing.T) {
	taken := make(chan struct{})
	r := newRig(t, Config{Judge: &fakeJudge{do: func(domain.Trigger, func(command.Answer)) error {
		close(taken) // and never answers
		return nil
	}}})
	if err := r.client.PublishMsg(&nats.Msg{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`)}); err != nil {
		t.Fatal(err)
	}
	<-taken
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := r.service.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 without an answer") {
		t.Errorf("got %v", err)
	}
}

func TestForwarding(t *testing.T) {
	const partitions = 4
	stranger := &fakeJudge{do: func(domain.Trigger, func(command.Answer)) error { return command.ErrNotOwner }}
	r := newRig(t, Config{Judge: stranger, Partitions: partitions})

	// Nobody has the partition yet, and this process gets it back to itself.
	for p := range partitions {
		if err := r.endpoint.Serve(p); err != nil {
			t.Fatal(err)
		}
	}
	got := r.ask(t, &nats.Msg{Subject: "muster.cmd.acct-1", Data: []byte(`{"trigger":"start"}`)})
	if got.Header.Get(micro.ErrorCodeHeader) != "503" || !strings.Contains(string(got.Data), `"not the owner"`) {
		t.Fatalf("from a wrong owner: %v %s", got.Header, got.Data)
	}
	for p := range partitions {
		if err := r.endpoint.Leave(p); err != nil {
			t.Fatal(err)
		}
	}

	// Another process owns it. It gets only what is sent on: its command
	// endpoint shares the work with the first, so either may be asked.
	owner := &fakeJudge{}
	_, e := r.process(t, Config{Judge: owner, Partitions: partitions})
	for p := range partitions {
		if err := e.Serve(p); err != nil {
			t.Fatal(err)
		}
		if err := e.Serve(p); err != nil { // again: nothing changes
			t.Fatal(err)
		}
	}
	if err := e.nc.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	const n = 100
	for i := range n {
		got := r.ask(t, &nats.Msg{
			Subject: fmt.Sprintf("muster.cmd.a=2E%d", i), Data: []byte(`{"trigger":"start"}`),
			Header: nats.Header{"Content-Type": {"application/json"}, "traceparent": {"tp"}},
		})
		if !strings.Contains(string(got.Data), fmt.Sprintf(`"account":"a.%d"`, i)) || got.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("answer %v %s", got.Header, got.Data)
		}
	}
	for _, got := range owner.triggers() {
		if got.Traceparent != "tp" {
			t.Fatalf("a header got lost: %+v", got)
		}
	}
	if sent := r.endpoint.Stats().Forwarded; len(owner.triggers()) != n || sent < 2 || sent > n+1 {
		t.Errorf("the owner judged %d of %d, %d were sent on", len(owner.triggers()), n, sent)
	}
}

func TestNotTheOwnerWithoutForwarding(t *testing.T) {
	r := newRig(t, Config{Judge: &fakeJudge{do: func(domain.Trigger, func(command.Answer)) error { return command.ErrNotOwner }}})
	got := r.ask(t, &nats.Msg{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`)})
	if !errors.Is(bus.ErrorOf(got), bus.ErrRetryable) {
		t.Errorf("got %v %s", got.Header, got.Data)
	}
}

// TestGoClient: the Go client and the endpoint understand each other.
func TestGoClient(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		judge := &fakeJudge{}
		r := newRig(t, Config{Judge: judge})
		c := bus.NewClient(r.client, bus.ClientConfig{JSON: asJSON})
		at := time.Date(2026, 1, 1, 10, 0, 0, 5, time.UTC).UnixNano()
		full := domain.Trigger{
			ID: "i", Account: "a.b", Name: "message_sent", Key: "m-1", At: at, HasAt: true, Source: "s", Epoch: 1 << 40, Seq: 200, By: domain.ByUs,
			Reason: domain.Reason{Code: "1", Text: "t"}, Expect: 0, Machine: "whatsapp@2", Mode: "observe", Labels: map[string]string{"pool": "eu", "a": "b"},
			Data: domain.Data{
				"n": int64(-3), "f": 1.5, "s": strings.Repeat("x", 300), "t": true, "u": false,
				"l": []any{"a", int64(1), []any{}}, "o": map[string]any{"p": int64(70000)},
			},
			Traceparent: "tp", Correlation: "co", Causation: "ca",
		}
		reply, err := c.Send(t.Context(), full)
		if err != nil {
			t.Fatalf("JSON %v: %v", asJSON, err)
		}
		if reply.Account != "a.b" || reply.Outcome != domain.Applied || reply.To != "CONNECTING" || reply.Version != 1 || reply.AsOf()[2] != 41 {
			t.Errorf("JSON %v: %+v", asJSON, reply)
		}
		if got := fmt.Sprintf("%#v", judge.triggers()[0]); got != fmt.Sprintf("%#v", full) {
			t.Errorf("JSON %v: judged\n%s, sent\n%#v", asJSON, got, full)
		}
		least := domain.Trigger{Account: "a.b", Name: "start", Expect: domain.NoExpect}
		if _, err := c.Send(t.Context(), least); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%#v", judge.triggers()[1]); got != fmt.Sprintf("%#v", least) {
			t.Errorf("JSON %v: judged\n%s, sent\n%#v", asJSON, got, least)
		}
		bad, err := c.Send(t.Context(), domain.Trigger{Account: "a.b", Name: "mark_stuck", Expect: domain.NoExpect})
		if err != nil || bad.Outcome != domain.Invalid || !strings.Contains(bad.Reason, "mark_stuck") {
			t.Errorf("JSON %v: %+v, %v", asJSON, bad, err)
		}
	}
}
