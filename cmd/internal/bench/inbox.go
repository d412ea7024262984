package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// InboxConfig is what Inbox measures: how fast an inbox is emptied that filled
// up while Muster was down, beside the rate of requests.
type InboxConfig struct {
	Dir        string // where scratch directories are made; "" = the system's
	Sync       string
	Partitions int
	Callers    int              // of the requests; the messages are about their accounts, too
	During     time.Duration    // of the measurement of requests
	Messages   int              // in the inbox
	Say        func(row string) // gets each figure as it comes; nil: nobody
}

// InboxReport is what Inbox found. Rates are per second.
type InboxReport struct {
	Append  Figure  `json:"append"`  // requests: judged, appended, synced, answered
	Publish float64 `json:"publish"` // into the inbox, pipelined, nobody reading
	Drain   float64 `json:"drain"`   // out of it: judged, appended, synced, removed
	Ratio   float64 `json:"ratio"`   // Drain / Append
}

// Inbox measures requests first, then the inbox, on a server of its own each.
func Inbox(ctx context.Context, cfg InboxConfig) (InboxReport, error) {
	var rep InboxReport
	say := cfg.Say
	if say == nil {
		say = func(string) {}
	}
	runs, err := appendRuns(ctx, AppendConfig{Dir: cfg.Dir, Callers: []int{cfg.Callers}, During: cfg.During, Say: cfg.Say}, cfg.Sync, cfg.Partitions)
	if err != nil {
		return rep, fmt.Errorf("requests: %w", err)
	}
	rep.Append = runs[0].Figure
	dir, err := os.MkdirTemp(cfg.Dir, "muster-bench-*")
	if err != nil {
		return rep, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if rep.Publish, err = fillInbox(ctx, cfg, dir); err != nil {
		return rep, fmt.Errorf("fill the inbox: %w", err)
	}
	say(fmt.Sprintf("published while nobody reads:          %8.0f/s", rep.Publish))
	if rep.Drain, err = drainInbox(ctx, cfg, dir); err != nil {
		return rep, fmt.Errorf("empty the inbox: %w", err)
	}
	rep.Ratio = rep.Drain / rep.Append.Rate
	say(fmt.Sprintf("drained:                               %8.0f/s  (%.2f of requests)", rep.Drain, rep.Ratio))
	return rep, nil
}

// fillInbox publishes the messages on a server without a Muster.
func fillInbox(ctx context.Context, cfg InboxConfig, dir string) (rate float64, err error) {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Listen: "127.0.0.1:0", Sync: bus.SyncInterval})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, srv.Shutdown(context.WithoutCancel(ctx))) }()
	nc, err := srv.Connect("bench inbox")
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	if _, err := inbox.Open(ctx, nc, inbox.Limits{}); err != nil {
		return 0, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(rawWindow))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	for i := range cfg.Messages {
		t := step("in", i%cfg.Callers, i/cfg.Callers)
		body, err := codec.AppendTrigger(nil, &t) // as the client sends its requests
		if err != nil {
			return 0, err
		}
		if _, err := js.PublishAsync(bus.InboxSubject(string(t.Account)), body, jetstream.WithStallWait(30*time.Second)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return float64(cfg.Messages) / time.Since(begin).Seconds(), nil
}

// drainInbox starts a Muster on the directory and waits until the inbox is empty and
// every message has become an event.
func drainInbox(ctx context.Context, cfg InboxConfig, dir string) (rate float64, err error) {
	s, err := serveOn(ctx, dir, cfg.Sync, cfg.Partitions)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	nc, err := nats.Connect(s.app.NATSURL())
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	in, err := js.Stream(ctx, inbox.Stream)
	if err != nil {
		return 0, err
	}
	first, begin := in.CachedInfo().State.Msgs, time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for left := first; left > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		info, err := in.Info(ctx)
		if err != nil {
			return 0, err
		}
		left = info.State.Msgs
	}
	took := time.Since(begin)
	events := uint64(0)
	for p := range cfg.Partitions {
		ev, err := js.Stream(ctx, eventlog.StreamName(p))
		if err != nil {
			return 0, err
		}
		events += ev.CachedInfo().State.Msgs
	}
	if events != uint64(cfg.Messages) {
		return 0, fmt.Errorf("%d messages became %d events", cfg.Messages, events)
	}
	return float64(first) / took.Seconds(), nil
}
