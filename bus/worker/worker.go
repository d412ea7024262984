// Package worker is for those who write connectors: a process that hosts
// connections of accounts.
//
// There are two levels. [Worker] only makes the process known: it says hello,
// beats for as long as it lives, and says goodbye. [Kit] does the rest of what a
// connector needs, too: it stamps what is said of an account with source, epoch,
// seq and id, tells the author's functions what is wanted (connect, reconnect,
// stop, log out), waits longer and longer between tries, and ends in phases none
// of which can hang. The package's example is a complete connector.
//
//	err := worker.Serve(ctx, nc, worker.KitConfig{
//		Config:    worker.Config{Name: "waha-1"},
//		Connector: worker.Connector{Connect: connect},
//		Accounts:  []string{"acct-1", "acct-2"},
//	})
//
// Authoritative for who lives, and for what is wanted of an account, is Muster.
// The connections are the author's.
//
// Say hello before the first trigger of the process: a hello of another run
// makes Muster take every account of that name for lost until it is reported
// anew.
//
// What happens when something fails: while the connection to the server is lost,
// words and beats wait for it and Muster waits for beats; when that takes longer
// than three of them, Muster forbids the accounts to send and some time later
// takes them for lost. Once the worker is heard again it is told so
// ([Config.Lapsed]), and a Kit reports its accounts. A process that is killed is
// noticed in the same way. What is wanted is heard live on the feed, which may
// leave something out; a Kit asks again every minute and after a lost connection.
package worker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
)

// Config describes a worker. Name is required.
type Config struct {
	// Name is the worker's name and the Source of its triggers; the same after
	// every start of the process.
	Name string
	// Boot names this run of the process (default: random). A process that
	// takes its connections over from the run before may keep that one's.
	Boot string
	// Continues says that the worker's connections are still those of a run
	// before, of which Muster need not know: its accounts are not taken for lost.
	Continues bool
	// Lapsed, when set, is called when Muster had taken the worker for dead:
	// report what each account really is. It has a goroutine of its own, must
	// return when ctx ends (Stop waits for it), and may be called again before.
	Lapsed func(ctx context.Context)
	// Timeout bounds one attempt to be heard (default 6 s).
	Timeout time.Duration
	Logger  *slog.Logger // default: discarded
}

func (c Config) withDefaults() (Config, error) {
	if c.Boot == "" {
		c.Boot = rand.Text()
	}
	if err := (bus.WorkerMessage{Worker: c.Name, Boot: c.Boot}).Check(); err != nil {
		return c, err
	}
	if c.Timeout == 0 {
		c.Timeout = 6 * time.Second
	}
	if c.Lapsed == nil {
		c.Lapsed = func(context.Context) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("worker", c.Name)
	return c, nil
}

// The pauses between two attempts to say hello.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Worker is a worker that Muster has welcomed. Its methods may be called from
// any goroutine.
type Worker struct {
	cfg    Config
	nc     *nats.Conn
	told   *nats.Subscription // what Muster says to a beat
	ctx    context.Context    // ends with Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	greeting atomic.Bool   // a hello is under way again
	changed  chan struct{} // gets a value when beat has changed

	mu    sync.Mutex // guards what follows
	beat  time.Duration
	ended bool // no goroutine is started any more
}

// Start says hello until Muster has heard it, then beats until Stop. The
// connection stays the caller's and must outlive the worker. The error is ctx's,
// or says what is wrong with the name.
func Start(ctx context.Context, nc *nats.Conn, cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	w := &Worker{cfg: cfg, nc: nc, changed: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if err := w.start(ctx); err != nil {
		w.cancel()
		return nil, fmt.Errorf("start worker %s: %w", cfg.Name, err)
	}
	return w, nil
}

func (w *Worker) start(ctx context.Context) (err error) {
	if w.told, err = w.nc.Subscribe(w.nc.NewInbox(), w.hear); err != nil {
		return err
	}
	if err = w.helloUntil(ctx, w.cfg.Continues); err != nil {
		return errors.Join(err, w.told.Unsubscribe())
	}
	w.wg.Go(w.run)
	return nil
}

// Name is the worker's name.
func (w *Worker) Name() string { return w.cfg.Name }

// Boot names this run of the worker.
func (w *Worker) Boot() string { return w.cfg.Boot }

// Beat is the interval at which Muster wants beats.
func (w *Worker) Beat() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beat
}

// Stop says goodbye and beats no more. The error says that the goodbye was not
// heard before ctx ended; Muster will notice by the silence.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	err := w.told.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	_, heard := w.request(ctx, bus.GoodbyeSubject(w.cfg.Name), bus.WorkerMessage{})
	if err = errors.Join(err, heard); err != nil {
		return fmt.Errorf("stop worker %s: %w", w.cfg.Name, err)
	}
	return nil
}

// run is the worker's goroutine.
func (w *Worker) run() {
	up := w.nc.StatusChanged(nats.CONNECTED)
	defer w.nc.RemoveStatusListener(up)
	every := w.Beat()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
			w.sendBeat(every)
		case <-up: // back after a loss: perhaps another Muster is there
			if w.greeting.CompareAndSwap(false, true) {
				w.wg.Go(w.greetAgain)
			}
		case <-w.changed:
		}
		if now := w.Beat(); now != every {
			every = now
			tick.Reset(every)
			w.sendBeat(every) // the next one comes at another time than was promised
		}
	}
}

// greetAgain makes sure that whoever is there now knows the worker, while it
// goes on to beat.
func (w *Worker) greetAgain() {
	defer w.greeting.Store(false)
	if err := w.helloUntil(w.ctx, true); err != nil && w.ctx.Err() == nil {
		w.cfg.Logger.Warn("hello was refused; the beats go on", "error", err)
	}
}

func (w *Worker) sendBeat(every time.Duration) {
	body, err := json.Marshal(bus.WorkerMessage{Worker: w.cfg.Name, Boot: w.cfg.Boot, EveryMS: every.Milliseconds()})
	if err == nil {
		err = w.nc.PublishRequest(bus.BeatSubject(w.cfg.Name), w.told.Subject, body)
	}
	if err != nil {
		w.cfg.Logger.Warn("a beat was not sent", "error", err)
	}
}

// hear takes what Muster says to a beat.
func (w *Worker) hear(m *nats.Msg) {
	var n bus.WorkerWelcome
	if bus.ErrorOf(m) != nil || json.Unmarshal(m.Data, &n) != nil {
		return // nobody listens, or not to this
	}
	w.take(n)
}

// take follows what Muster said.
func (w *Worker) take(n bus.WorkerWelcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.BeatMS > 0 && n.Beat() != w.beat {
		w.beat = n.Beat()
		select {
		case w.changed <- struct{}{}:
		default: // run will look anyway
		}
	}
	if n.Lapsed && !w.ended {
		w.cfg.Logger.Warn("Muster had taken this worker for dead")
		w.wg.Go(func() { w.cfg.Lapsed(w.ctx) })
	}
}

// helloUntil says hello until it is answered.
func (w *Worker) helloUntil(ctx context.Context, again bool) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.hello(ctx, again)
		if err == nil || errors.Is(err, bus.ErrInvalid) || errors.Is(err, bus.ErrNotAllowed) || errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		w.cfg.Logger.Info("hello was not answered; trying again", "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// hello is one attempt.
func (w *Worker) hello(ctx context.Context, again bool) error {
	m, err := w.request(ctx, bus.HelloSubject(w.cfg.Name), bus.WorkerMessage{Again: again})
	if err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	var n bus.WorkerWelcome
	if err := json.Unmarshal(m.Data, &n); err != nil || n.BeatMS <= 0 {
		return fmt.Errorf("say hello: the answer %q is no welcome: %w", m.Data, bus.ErrInvalid)
	}
	w.take(n)
	return nil
}

func (w *Worker) request(ctx context.Context, subject string, says bus.WorkerMessage) (*nats.Msg, error) {
	says.Worker, says.Boot = w.cfg.Name, w.cfg.Boot
	body, err := json.Marshal(says)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.Timeout, fmt.Errorf("no answer within %v", w.cfg.Timeout))
	defer cancel()
	m, err := w.nc.RequestWithContext(ctx, subject, body)
	switch {
	case err == nil:
		return m, bus.ErrorOf(m)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: nobody listens on %s", bus.ErrUnreachable, subject)
	default:
		return nil, err
	}
}
