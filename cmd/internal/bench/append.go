package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/codec"
)

// AppendConfig is what Append measures: each sync mode with each partition
// count at each number of callers.
type AppendConfig struct {
	Dir        string // where scratch directories are made; "" = the system's
	Syncs      []string
	Partitions []int
	Callers    []int
	During     time.Duration    // of one measurement
	Erasable   bool             // what is personal is encrypted
	Say        func(row string) // gets each figure as it comes; nil: nobody
}

// AppendRun is one measurement of Append.
type AppendRun struct {
	Sync       string `json:"sync"`
	Partitions int    `json:"partitions"`
	Figure
}

// AppendReport is what Append found. Rates are per second. Raw and Echo are the
// medians of what was measured before each pair of sync mode and partitions.
type AppendReport struct {
	Runs []AppendRun `json:"runs"`
	Raw  Rate        `json:"raw"`  // pipelined publishes with the same guard and size into one stream, nothing judged
	Echo Rate        `json:"echo"` // bare request and reply through the server, at EchoCallers
}

// Rate is a rate with the number of callers behind it (0: one that pipelines).
type Rate struct {
	Rate    float64 `json:"rate"`
	Callers int     `json:"callers,omitempty"`
}

// EchoCallers is the number of callers at which the echo is measured.
const EchoCallers = 256

// Append measures request → judge → append → sync → answer.
func Append(ctx context.Context, cfg AppendConfig) (AppendReport, error) {
	var rep AppendReport
	var raws, echoes []float64
	for _, sync := range cfg.Syncs {
		for _, n := range cfg.Partitions {
			raw, echo, err := bare(ctx, cfg)
			if err != nil {
				return rep, err
			}
			raws, echoes = append(raws, raw), append(echoes, echo.Rate)
			cfg.say("bare: echo %.0f/s at %d callers (p50 %.2f ms, p99 %.2f ms), raw guarded publish %.0f/s", echo.Rate, EchoCallers, echo.P50, echo.P99, raw)
			runs, err := appendRuns(ctx, cfg, sync, n)
			if err != nil {
				return rep, fmt.Errorf("sync %s, %d partitions: %w", sync, n, err)
			}
			rep.Runs = append(rep.Runs, runs...)
		}
	}
	rep.Raw, rep.Echo = Rate{Rate: median(raws)}, Rate{median(echoes), EchoCallers}
	return rep, nil
}

func (c *AppendConfig) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(fmt.Sprintf(format, args...))
	}
}

// appendRuns measures one server at each number of callers.
func appendRuns(ctx context.Context, cfg AppendConfig, sync string, partitions int) (runs []AppendRun, err error) {
	s, err := serve(ctx, cfg.Dir, sync, partitions, erasable(cfg.Erasable))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for i, callers := range cfg.Callers {
		f, err := sendLoad(ctx, s.app.NATSURL(), callers, cfg.During, fmt.Sprintf("b%d", i))
		if err != nil {
			return nil, fmt.Errorf("%d callers: %w", callers, err)
		}
		cfg.say("sync %-8s partitions %d callers %4d: %8.0f/s  p50 %7.2f ms  p99 %7.2f ms", sync, partitions, callers, f.Rate, f.P50, f.P99)
		runs = append(runs, AppendRun{sync, partitions, f})
	}
	return runs, nil
}

// accountsPerCaller keeps callers out of each other's accounts.
const accountsPerCaller = 40

// sendLoad sends triggers that are all applied.
func sendLoad(ctx context.Context, url string, callers int, during time.Duration, prefix string) (Figure, error) {
	conns, closeAll, err := dial(url)
	if err != nil {
		return Figure{}, err
	}
	defer closeAll()
	clients := make([]*bus.Client, len(conns))
	for i, c := range conns {
		clients[i] = bus.NewClient(c, bus.ClientConfig{Timeout: 30 * time.Second})
	}
	return drive(ctx, callers, during, func(ctx context.Context, caller, n int) error {
		t := step(prefix, caller, n)
		r, err := clients[caller%len(clients)].Send(ctx, t)
		if err == nil && r.Verdict.Outcome != domain.Applied {
			err = fmt.Errorf("trigger %s of %s was not applied: %v %s", t.Name, t.Account, r.Verdict.Outcome, r.Verdict.Reason)
		}
		return err
	})
}

// step is the n-th trigger of a caller: its accounts come up and go down in turn.
func step(prefix string, caller, n int) domain.Trigger {
	round := n / accountsPerCaller
	t := domain.Trigger{
		ID:      prefix + "-" + strconv.Itoa(caller) + "-" + strconv.Itoa(n),
		Account: domain.AccountID(prefix + "-" + strconv.Itoa(caller) + "-" + strconv.Itoa(n%accountsPerCaller)),
		Name:    "connection_lost", Source: "bench-worker-1", By: domain.ByRemote,
		Epoch: 1, Seq: int64(round + 1), Expect: domain.NoExpect,
	}
	switch {
	case round == 0:
		t.Name = "start"
	case round%2 == 1:
		t.Name = "connection_ready"
	}
	return t
}

// bare measures what the same server does without Muster.
func bare(ctx context.Context, cfg AppendConfig) (raw float64, echo Figure, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "muster-bench-*")
	if err != nil {
		return 0, Figure{}, err
	}
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Listen: "127.0.0.1:0", Sync: bus.SyncInterval})
	if err != nil {
		return 0, Figure{}, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, srv.Shutdown(context.WithoutCancel(ctx)), os.RemoveAll(dir)) }()
	if echo, err = echoLoad(ctx, srv, cfg.During); err != nil {
		return 0, echo, fmt.Errorf("echo: %w", err)
	}
	if raw, err = rawLoad(ctx, srv, cfg.During); err != nil {
		return 0, echo, fmt.Errorf("raw publish: %w", err)
	}
	return raw, echo, nil
}

func echoLoad(ctx context.Context, srv *bus.Server, during time.Duration) (Figure, error) {
	service, err := srv.Connect("bench echo")
	if err != nil {
		return Figure{}, err
	}
	defer service.Close()
	if _, err := service.Subscribe("bench.echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		return Figure{}, err
	}
	if err := service.Flush(); err != nil {
		return Figure{}, err
	}
	conns, closeAll, err := dial(srv.URL())
	if err != nil {
		return Figure{}, err
	}
	defer closeAll()
	body := make([]byte, 150)
	return drive(ctx, EchoCallers, during, func(ctx context.Context, caller, _ int) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // as the client does
		defer cancel()
		_, err := conns[caller%len(conns)].RequestWithContext(ctx, "bench.echo", body)
		return err
	})
}

// rawWindow is the number of publishes without an answer.
const rawWindow = 1000

// rawLoad publishes records of real size, guarded as the log guards them, to
// accounts one after the other.
func rawLoad(ctx context.Context, srv *bus.Server, during time.Duration) (float64, error) {
	nc, err := srv.Connect("bench raw")
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(rawWindow))
	if err != nil {
		return 0, err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.ev.*"}, Storage: jetstream.FileStorage}); err != nil {
		return 0, err
	}
	t := step("raw", 7, 5*accountsPerCaller)
	d := domain.NewJudge(lifecycle.Registry()).Decide(nil, &t, time.Now().UnixNano())
	record, err := codec.Encode(d.Event)
	if err != nil {
		return 0, err
	}
	const accounts = 10_000
	n, begin := 0, time.Now()
	for ; time.Since(begin) < during; n++ {
		expect := 0 // the first round; then the account's place in the round before
		if n >= accounts {
			expect = n - accounts + 1
		}
		m := &nats.Msg{
			Subject: "bench.ev.raw-" + strconv.Itoa(n%accounts), Data: record,
			Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.Itoa(expect)}},
		}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(30*time.Second)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	took := time.Since(begin)
	info, err := js.Stream(ctx, "BENCH")
	if err != nil {
		return 0, err
	}
	if got := info.CachedInfo().State.Msgs; got != uint64(n) {
		return 0, fmt.Errorf("%d of %d publishes are stored", got, n)
	}
	return float64(n) / took.Seconds(), nil
}

// running is a Muster on a scratch directory.
type running struct {
	app  *app.App
	dir  string
	end  context.CancelFunc
	done chan error
}

// serve starts a Muster as `muster serve` would, without lines for transitions.
func serve(ctx context.Context, parent, sync string, partitions int, changes ...func(*config.Config)) (*running, error) {
	dir, err := os.MkdirTemp(parent, "muster-bench-*")
	if err != nil {
		return nil, err
	}
	s, err := serveOn(ctx, dir, sync, partitions, changes...)
	if err != nil {
		return nil, errors.Join(err, remove(dir))
	}
	s.dir = dir
	return s, nil
}

// serveOn is serve on a directory that stays.
func serveOn(ctx context.Context, dir, sync string, partitions int, changes ...func(*config.Config)) (*running, error) {
	cfg := config.Default()
	cfg.Data, cfg.HTTP, cfg.NATSListen, cfg.Sync = dir, "127.0.0.1:0", "127.0.0.1:0", sync
	cfg.Partitions, cfg.Origins["partitions"] = partitions, "bench"
	for _, change := range changes {
		change(&cfg)
	}
	return run(ctx, cfg, "")
}

// erasable sets whether accounts can be erased.
func erasable(on bool) func(*config.Config) { return func(c *config.Config) { c.Erasable = on } }

// serveDir is serve with four partitions on a directory that stays.
func serveDir(ctx context.Context, dir, sync string) (*running, error) {
	return run(ctx, configOf(dir, sync), "")
}

// configOf is that of a server on a directory, which listens wherever there is a
// free port.
func configOf(dir, sync string) config.Config {
	cfg := config.Default()
	cfg.Data, cfg.HTTP, cfg.NATSListen, cfg.Sync = dir, "127.0.0.1:0", "127.0.0.1:0", sync
	return cfg
}

// run starts a Muster with a configuration; stop removes dir if it is not "".
func run(ctx context.Context, cfg config.Config, dir string) (*running, error) {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{app: app.New(app.Options{Config: cfg, Machines: lifecycle.Registry()}), dir: dir, end: cancel, done: make(chan error, 1)}
	go func() { r.done <- r.app.Run(runCtx) }()
	select {
	case <-r.app.Ready():
		return r, nil
	case err := <-r.done:
		cancel()
		return nil, errors.Join(err, remove(dir))
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), r.stop())
	}
}

func (r *running) stop() error {
	r.end()
	return errors.Join(<-r.done, remove(r.dir))
}

func remove(dir string) error {
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}
