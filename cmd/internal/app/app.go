package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/connector/reconcile"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/bus/presence"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/cmd/internal/telemetry"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/seal"
	"github.com/musterhq/muster/projections"
)

// Options are what an App is made of. Config and Machines are required.
type Options struct {
	Config   config.Config
	Machines *machine.Registry
	Origins  map[string]string // where each machine came from, by its name; for people
	Version  string            // of the program
	Logger   *slog.Logger      // default: discarded
	// Tracer makes the spans of triggers; Run ends it. nil: there are none.
	Tracer *telemetry.Tracer
	// Transitions gets the line of every transition; nil: none is written.
	Transitions io.Writer
}

// App is the running program. Make one with New; Run does everything.
type App struct {
	opts  Options
	cfg   *config.Config
	log   *slog.Logger
	judge *domain.Judge

	stage stage
	ready chan struct{}

	server *bus.Server
	nc     *nats.Conn // of the log
	events *history
	keys   *seal.Keys // nil: accounts cannot be erased
	blobs  eventlog.Blobs
	hurt   offline.Damaged
	holes  map[int]string // partitions in which records of unknown accounts are gone, and where
	set    *command.Set
	owners *owners
	inbox  inboxParts
	alerts alerts

	replayed time.Duration // what the history took to become state
	views    *views
	feed     *feed.Feed
	workers  *presence.Presence
	svc      *bus.Service
	archiver atomic.Pointer[offline.Archiver] // nil until the history is archived
	hooks    atomic.Pointer[hub.Hub]          // nil until webhooks are taken
	stream   *projections.Tee                 // committed records, for those who follow over HTTP
	api      atomic.Pointer[httpapi.API]      // nil until HTTP is served under /v1
	door     door
	metrics  *telemetry.Metrics
	tracer   *telemetry.Tracer               // nil: no traces
	barrier  atomic.Pointer[barrier.Barrier] // nil until the log is open, or with an external server
	polls    *reconcile.Reconciler

	ends   []end
	failed chan error
	broken atomic.Bool // Run ends because a part has failed
	wg     sync.WaitGroup
}

// end undoes one step of the start.
type end struct {
	name   string
	within time.Duration
	do     func(context.Context) error
}

// New returns an App that has done nothing yet.
func New(opts Options) *App {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	a := &App{
		opts: opts, cfg: &opts.Config, log: opts.Logger,
		judge: domain.NewJudge(opts.Machines),
		ready: make(chan struct{}), failed: make(chan error, 1),
	}
	a.stage.set("starting")
	a.door.make(a)
	a.metrics, a.tracer = telemetry.New(a.sources()), opts.Tracer
	return a
}

// Ready is closed once the history is replayed and triggers are taken.
func (a *App) Ready() <-chan struct{} { return a.ready }

// NATSURL is where clients connect; "" before the server is up and when an
// external server is used.
func (a *App) NATSURL() string {
	if a.server == nil {
		return a.cfg.NATSURL
	}
	return a.server.URL()
}

// HTTPAddr is where HTTP clients connect, host:port, once the App is ready.
func (a *App) HTTPAddr() string { return a.cfg.HTTP }

// Writers are the partitions' writers, for a program that runs in this process.
// nil before they are open.
func (a *App) Writers() *command.Set { return a.set }

// Connect opens a connection for a client in this process.
func (a *App) Connect(name string) (*nats.Conn, error) {
	if a.server != nil {
		return a.server.Connect(name)
	}
	return bus.Connect(context.Background(), a.connectConfig(name))
}

// Run starts everything, serves until ctx ends or a part fails, and ends
// everything. It returns nil when ctx ended and everything ended well.
func (a *App) Run(ctx context.Context) error {
	err := a.start(ctx)
	if err == nil {
		err = a.serve(ctx)
	}
	a.broken.Store(err != nil)
	a.stage.set("shutting down")
	return errors.Join(err, a.stop())
}

// The stages of the start between which the history becomes state.
const (
	stageViews    = "loading the views"
	stageCaughtUp = "waiting for the views"
)

// start is the wiring, one step after the other: it reads better flat.
func (a *App) start(ctx context.Context) error {
	begin := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(startGC)) // back to what it was
	if a.tracer != nil {
		a.onEnd("traces", 5*time.Second, a.closeTracer)
	}
	steps := []struct {
		stage string
		do    func(context.Context) error
	}{
		{"listening for HTTP", a.startHTTP},
		{"starting the NATS server", a.startServer},
		{"opening the log", a.openLog},
		{"reading the tokens", a.openTokens},
		{"opening the archive", a.startArchive},
		{"opening the inbox", a.openInbox},
		{"preparing the views", a.openViews},
		{stageViews, a.startViews},
		{"opening the feed", a.startFeed},
		{"preparing the alerts", a.prepareAlerts},
		{"replaying the history", a.openWriters},
		{stageCaughtUp, a.awaitViews},
		{"listening for workers", a.startWorkers},
		{"starting the alerts", a.startAlerts},
		{"opening the bus", a.startBus},
		{"opening the HTTP API", a.startAPI},
		{"opening the webhooks", a.startHooks},
		{"reading the inbox", a.startInbox},
	}
	var replay time.Time
	for _, s := range steps {
		a.stage.set(s.stage)
		at := time.Now()
		if err := s.do(ctx); err != nil {
			return err
		}
		switch s.stage {
		case stageViews:
			replay = at
		case stageCaughtUp:
			a.replayed = time.Since(replay)
			debug.FreeOSMemory() // what only the replay needed; it keeps everybody waiting, so it is done before anybody is let in
		}
	}
	a.stage.set("")
	close(a.ready)
	a.giveBack()
	a.log.Info("ready", "took", time.Since(begin).Round(time.Millisecond), "nats", a.NATSURL(),
		"http", a.cfg.HTTP, "accounts", a.views.accounts.Len())
	return nil
}

func (a *App) serve(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.set.Failed():
		return fmt.Errorf("the log can promise nothing any more; start again: %w", a.set.Err())
	case err := <-a.failed:
		return err
	}
}

// startGC is how much the heap may grow between two collections during the
// start, in percent: a fleet is read into memory then, and next to nothing of
// what is there can be collected.
const startGC = 400

// blockCache is how long the server keeps blocks that were read, and a little more.
const blockCache = 15 * time.Second

// giveBack collects the blocks that the server read for the start, when it has
// forgotten them. The runtime returns their memory to the system bit by bit; to
// return it all at once keeps everybody waiting for a second and more.
func (a *App) giveBack() {
	stop := make(chan struct{})
	a.wg.Go(func() {
		select {
		case <-time.After(blockCache):
			runtime.GC()
		case <-stop:
		}
	})
	a.onEnd("memory", time.Second, func(context.Context) error { close(stop); return nil })
}

// fail ends Run with an error; the first one counts.
func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// onEnd remembers how a step is undone; the last one is undone first.
func (a *App) onEnd(name string, within time.Duration, do func(context.Context) error) {
	a.ends = append(a.ends, end{name, within, do})
}

// stop undoes the start, each step within its own bound.
func (a *App) stop() error {
	level := slog.LevelDebug // of a start that was refused; what counts then is why
	select {
	case <-a.ready:
		level = slog.LevelInfo
	default:
	}
	a.log.Log(context.Background(), level, "ending", "parts", len(a.ends))
	var errs []error
	for i := len(a.ends) - 1; i >= 0; i-- {
		e := a.ends[i]
		begin := time.Now()
		ctx, cancel := context.WithTimeoutCause(context.Background(), e.within, fmt.Errorf("%s: not done within %v", e.name, e.within))
		err := e.do(ctx)
		cancel()
		a.log.Log(context.Background(), level, "ended", "part", e.name, "took", time.Since(begin).Round(time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("end %s: %w", e.name, err))
		}
	}
	a.wg.Wait()
	return errors.Join(errs...)
}

// openWriters takes the partitions over.
func (a *App) openWriters(ctx context.Context) error {
	n := a.events.Partitions()
	leases, err := natslog.OpenLeases(ctx, a.nc, a.events.Replicas())
	if err != nil {
		return fmt.Errorf("open the writers: %w", err)
	}
	leases.Patient = a.cfg.Embedded()
	o := &owners{
		leases: leases, name: a.instanceName(), log: a.log.With("component", "owner"), report: a.report,
		damaged:   func(p int) map[string]string { return a.hurt.Accounts(p, n, a.holes) },
		revisions: make([]atomic.Uint64, n), owned: map[int]bool{},
	}
	a.set, err = command.NewSet(command.Config{
		Log: a.events, Judge: a.judge, Blobs: a.blobs, MaxRecord: a.events.MaxRecord(),
		SnapshotEvery: a.cfg.SnapshotEvery, SnapshotAfter: a.cfg.SnapshotPeriod,
		Logger:   a.log.With("component", "writer"),
		OnReplay: a.views.history.replayed,
		OnCommit: a.committed,
		OnEvents: lineWriter(a.opts.Transitions),
		Writer:   func(p int) uint64 { return o.revisions[p].Load() },
		Hold:     a.holdDeadlines,
		Observer: a.tracer.Observer(a.metrics.Writers),
	})
	if err != nil {
		return fmt.Errorf("open the writers: %w", err)
	}
	o.set, a.owners = a.set, o
	a.onEnd("leases", 5*time.Second, func(ctx context.Context) error {
		return errors.Join(a.set.Close(ctx), o.end(ctx))
	})
	return o.start(ctx, n)
}

// report tells the operator what taking a partition over has found.
func (a *App) report(r command.LoadReport) {
	a.alerts.found(r.Damaged)
	log := a.log.With("partition", r.Partition)
	log.Info("replayed", "events", r.Replayed, "accounts", r.Accounts, "snapshot", r.FromSnapshot,
		"last", r.Last, "took", r.Took.Round(time.Millisecond))
	if r.Discarded != "" {
		log.Warn("a snapshot was not used", "reason", r.Discarded)
	}
	if r.Missing > 0 {
		log.Error("the stream has lost records", "missing", r.Missing)
	}
	if r.LostTail > 0 {
		log.Error("the stream ends before its snapshot: acknowledged events are lost", "missing", r.LostTail)
	}
	for id, why := range r.Damaged {
		log.Error("account is damaged: it can be read, its writes are refused", "account", id, "reason", why)
	}
}

// startBus opens the command endpoint and the queries.
func (a *App) startBus(context.Context) error {
	nc, err := a.Connect("muster service")
	if err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	a.svc, err = bus.NewService(nc, bus.ServiceConfig{Version: a.opts.Version, Logger: a.log.With("component", "bus")})
	if err != nil {
		nc.Close()
		return fmt.Errorf("open the bus: %w", err)
	}
	a.onEnd("bus", 10*time.Second, a.svc.Stop)
	// The first thing to end: callers are still there to be told so, and those
	// whose trigger was taken are still answered.
	a.onEnd("writers", 30*time.Second, a.set.Close)
	commands, err := dispatch.Register(a.svc, dispatch.Config{
		Judge: a.judged(), Partitions: a.events.Partitions(), Admit: a.admit, Logger: a.log.With("component", "commands"),
	})
	if err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	if err := a.owners.bind(commands); err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	queries := query.Config{As: a.door.guard.MayAsk, Logger: a.log.With("component", "queries")}
	if err := query.Register(a.svc, queries, a.queries()); err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	if err := nc.Flush(); err != nil { // ready means that a request would be heard
		return fmt.Errorf("open the bus: %w", err)
	}
	return nil
}
