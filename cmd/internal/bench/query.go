package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// QueryConfig is what Query measures.
type QueryConfig struct {
	Dir      string // where the scratch directory is made; "" = the system's
	Data     string // the data directory to use and keep; filled when it is empty. "" = a scratch one
	Accounts int
	Events   int // of the history before; fewer than some 1.25 for each account are not possible
	Rate     int // triggers per second that come in meanwhile
	Callers  int // that ask side by side, each one question at a time
	During   time.Duration
	Only     []string         // names of questions; empty: all
	Profiles string           // where a CPU profile of each question is written; "" = none is
	Say      func(row string) // gets each figure as it comes; nil: nobody
}

// QueryRun is one question's figures.
type QueryRun struct {
	Query string `json:"query"`
	Figure
	Wanted float64 `json:"wanted_p99_ms,omitempty"` // what is aimed at; 0 = nothing
}

// QueryReport is what Query found.
type QueryReport struct {
	Accounts int        `json:"accounts"`
	Events   int        `json:"events"`            // of the history before
	StartS   float64    `json:"start_s"`           // from snapshots and saved views, until ready
	Bytes    float64    `json:"bytes_per_account"` // heap in use after the start, writers and views together
	Triggers float64    `json:"triggers"`          // per second, judged and stored meanwhile
	Runs     []QueryRun `json:"runs"`
	Echo     Figure     `json:"echo"` // the same callers, a bare request and reply through the same server
}

// pools are the labels of the fleet's accounts.
var pools = []string{"eu", "us", "ap", "za"}

// question is one thing that is asked.
type question struct {
	name    string
	subject string
	body    func(rnd *rand.Rand, accounts int) []byte
	wanted  float64 // milliseconds at p99; 0 = nothing
}

func questionsAsked() []question {
	one := func(format string) func(*rand.Rand, int) []byte {
		return func(rnd *rand.Rand, n int) []byte { return fmt.Appendf(nil, format, fleetID(rnd.IntN(n))) }
	}
	always := func(body string) func(*rand.Rand, int) []byte {
		return func(*rand.Rand, int) []byte { return []byte(body) }
	}
	pool := func(format string) func(*rand.Rand, int) []byte {
		return func(rnd *rand.Rand, _ int) []byte { return fmt.Appendf(nil, format, pools[rnd.IntN(len(pools))]) }
	}
	return []question{
		{"distribution", "muster.q.distribution", always(`{}`), 1},
		{"distribution by label", "muster.q.distribution", always(`{"label":"pool"}`), 1},
		{"page of 100", "muster.q.accounts.list", one(`{"after":%q,"limit":100}`), 10},
		{"page by state", "muster.q.accounts.list", one(`{"after":%q,"limit":100,"state":"DISCONNECTED"}`), 10},
		{"page by label", "muster.q.accounts.list", func(rnd *rand.Rand, n int) []byte {
			return fmt.Appendf(nil, `{"after":%q,"limit":100,"labels":{"pool":%q}}`, fleetID(rnd.IntN(n)), pools[rnd.IntN(len(pools))])
		}, 10},
		{"page by attention", "muster.q.accounts.list", one(`{"after":%q,"limit":100,"attention":"login_needed"}`), 10},
		{"facets", "muster.q.accounts.facets", always(`{}`), 10},
		{"facets by state", "muster.q.accounts.facets", always(`{"state":"DISCONNECTED"}`), 10},
		{"facets by label", "muster.q.accounts.facets", pool(`{"labels":{"pool":%q}}`), 10},
		{"can", "muster.q.can", one(`{"account":%q,"do":"send"}`), 1},
		{"can in a scope", "muster.q.can", one(`{"account":%q,"do":"send","scope":"new_chats"}`), 1},
		{"route", "muster.q.route", always(`{"do":"send","limit":10}`), 10},
		{"route by label", "muster.q.route", pool(`{"do":"send","scope":"new_chats","labels":{"pool":%q},"limit":10}`), 10},
		{"accounts.get", "muster.q.accounts.get", one(`{"account":%q}`), 10},
		{"why", "muster.q.why", one(`{"account":%q}`), 10},
		{"attention", "muster.q.attention.list", always(`{}`), 10},
		{"stats", "muster.q.stats", always(`{}`), 10},
	}
}

// fleetID is the id of the i-th account.
func fleetID(i int) string { return fmt.Sprintf("+1555%08d", i) }

// Query fills a data directory, starts a server on it from what was saved, and
// measures what questions take while triggers come in.
func Query(ctx context.Context, cfg QueryConfig) (rep QueryReport, err error) {
	say := func(format string, args ...any) {
		if cfg.Say != nil {
			cfg.Say(fmt.Sprintf(format, args...))
		}
	}
	dir, drop, err := cfg.dataDir()
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	begin := time.Now()
	if rep.Events, err = fillFleet(ctx, dir, cfg); err != nil {
		return rep, fmt.Errorf("fill the fleet: %w", err)
	}
	rep.Accounts = cfg.Accounts
	say("%d events of %d accounts written in %v", rep.Events, cfg.Accounts, time.Since(begin).Round(time.Millisecond))
	before := heapInUse()
	begin = time.Now()
	s, err := serveDir(ctx, dir, "group")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	rep.StartS = time.Since(begin).Seconds()
	rep.Bytes = (heapInUse() - before) / float64(cfg.Accounts)
	say("started from what was saved in %.2f s; %.0f bytes of heap for each account", rep.StartS, rep.Bytes)
	return rep, rep.ask(ctx, s, cfg, say)
}

// dataDir is the directory that the server runs on, and what is to be done with it
// at the end.
func (cfg *QueryConfig) dataDir() (dir string, drop func() error, err error) {
	if cfg.Data != "" {
		return cfg.Data, func() error { return nil }, os.MkdirAll(cfg.Data, 0o700)
	}
	dir, err = os.MkdirTemp(cfg.Dir, "muster-bench-*")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// heapInUse is what is on the heap when all that is not needed was collected.
func heapInUse() float64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// ask asks all questions while triggers come in.
func (rep *QueryReport) ask(ctx context.Context, s *running, cfg QueryConfig, say func(string, ...any)) (err error) {
	conns, closeAll, err := dial(s.app.NATSURL())
	if err != nil {
		return err
	}
	defer closeAll()
	work, stop := context.WithCancel(ctx)
	traffic := startTraffic(work, s.app.Writers(), cfg)
	defer func() { stop(); err = errors.Join(err, traffic.wait()) }()
	if rep.Echo, err = askEcho(ctx, conns, cfg); err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	say("%-22s %s", "echo", rep.Echo.row())
	for _, q := range questionsAsked() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, q.name) {
			continue
		}
		f, err := askProfiled(ctx, conns, cfg, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		rep.Runs = append(rep.Runs, QueryRun{q.name, f, q.wanted})
		say("%-22s %s", q.name, f.row())
	}
	rep.Triggers = traffic.rate()
	say("meanwhile: %.0f triggers/s", rep.Triggers)
	return nil
}

// row is the figure in a line.
func (f Figure) row() string {
	return fmt.Sprintf("%8.0f/s  p50 %6.3f ms  p99 %6.3f ms", f.Rate, f.P50, f.P99)
}

// askProfiled is askLoad with a profile, if one is wanted.
func askProfiled(ctx context.Context, conns []*nats.Conn, cfg QueryConfig, q question) (f Figure, err error) {
	if cfg.Profiles == "" {
		return askLoad(ctx, conns, cfg, q)
	}
	file, err := os.Create(filepath.Join(cfg.Profiles, strings.ReplaceAll(q.name, " ", "-")+".pprof"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return f, fmt.Errorf("profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return askLoad(ctx, conns, cfg, q)
}

// askLoad asks one question with all callers.
func askLoad(ctx context.Context, conns []*nats.Conn, cfg QueryConfig, q question) (Figure, error) {
	rnds := make([]*rand.Rand, cfg.Callers)
	for i := range rnds {
		rnds[i] = rand.New(rand.NewPCG(uint64(i), 1))
	}
	return drive(ctx, cfg.Callers, cfg.During, func(ctx context.Context, caller, _ int) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		answer, err := conns[caller%len(conns)].RequestWithContext(ctx, q.subject, q.body(rnds[caller], cfg.Accounts))
		if err == nil && answer.Header.Get("Nats-Service-Error-Code") != "" {
			err = fmt.Errorf("%s: %s", answer.Header.Get("Nats-Service-Error"), answer.Data)
		}
		return err
	})
}

// askEcho is a bare request and reply through the same server.
func askEcho(ctx context.Context, conns []*nats.Conn, cfg QueryConfig) (Figure, error) {
	nc := conns[len(conns)-1]
	sub, err := nc.Subscribe("bench.query.echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		return Figure{}, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil {
		return Figure{}, err
	}
	return askLoad(ctx, conns, cfg, question{subject: "bench.query.echo", name: "echo", body: func(*rand.Rand, int) []byte { return make([]byte, 150) }})
}

// fleetTrigger is a trigger of the i-th account.
func fleetTrigger(i int, name string) domain.Trigger {
	return domain.Trigger{Account: domain.AccountID(fleetID(i)), Name: name, Source: fmt.Sprint("bench-worker-", i%50), Expect: domain.NoExpect}
}

// fillFleet writes a history: accounts taken over as running, one in ten limited, one in seven
// restricted; then losses and returns, until there are so many events. At its end
// one in fifty is lost, and one in a hundred logged out.
func fillFleet(ctx context.Context, dir string, cfg QueryConfig) (events int, err error) {
	s, err := serveDir(ctx, dir, "interval")
	if err != nil {
		return 0, err
	}
	asOf, err := s.app.Writers().Accounts(ctx, func(*domain.Account) {})
	for _, seq := range asOf {
		events += int(seq)
	}
	if events > 0 || err != nil { // a directory that was kept
		return events, errors.Join(err, s.stop())
	}
	f := newFeeder(s.app.Writers())
	populate(ctx, f, cfg.Accounts)
	at := func(name string, i int) {
		t := fleetTrigger(i, name)
		if name == "logout" {
			t.Reason.Code = "401"
		}
		f.send(ctx, t)
	}
	for i := 0; f.sent < cfg.Events-cfg.Accounts/30-1 && ctx.Err() == nil; i++ {
		at("connection_lost", i%cfg.Accounts)
		at("connection_ready", i%cfg.Accounts)
	}
	for i := range cfg.Accounts {
		switch {
		case i%50 == 0:
			at("connection_lost", i)
		case i%100 == 1:
			at("logout", i)
		}
	}
	return f.sent, errors.Join(f.wait(), ctx.Err(), s.stop())
}

// populate takes accounts over as running; one in ten is limited, and one in
// seven restricted.
func populate(ctx context.Context, f *feeder, accounts int) {
	for i := range accounts {
		t := fleetTrigger(i, "adopt")
		t.Data = domain.Data{"state": "RUNNING"}
		t.Labels = map[string]string{"pool": pools[i%len(pools)], "tier": fmt.Sprint("t", i%3)}
		f.send(ctx, t)
		switch {
		case i%10 == 0:
			f.send(ctx, fleetTrigger(i, "rate_limited"))
		case i%7 == 0:
			t := fleetTrigger(i, "restricted")
			t.Data = domain.Data{"scope": "new_chats"}
			f.send(ctx, t)
		}
	}
}

// feeder gives triggers to the writers, so many at a time.
type feeder struct {
	set    *command.Set
	window chan struct{}
	wg     sync.WaitGroup
	sent   int // by the goroutine that sends
	done   atomic.Int64
	failed atomic.Pointer[error]
}

func newFeeder(set *command.Set) *feeder { return &feeder{set: set, window: make(chan struct{}, 4000)} }

func (f *feeder) send(ctx context.Context, t domain.Trigger) {
	select {
	case f.window <- struct{}{}:
	case <-ctx.Done():
		return
	}
	f.sent++
	f.wg.Add(1)
	answered := func(a command.Answer) {
		if a.Err != nil || !a.Verdict.Outcome.Appended() {
			f.fail(fmt.Errorf("trigger %s of %s: %v %s: %w", t.Name, t.Account, a.Verdict.Outcome, a.Verdict.Reason, a.Err))
		}
		f.done.Add(1)
		<-f.window
		f.wg.Done()
	}
	err := f.set.Submit(t, answered)
	for command.Retryable(err) && ctx.Err() == nil { // a full queue, or a change of owner
		time.Sleep(10 * time.Millisecond)
		err = f.set.Submit(t, answered)
	}
	if err != nil {
		f.fail(fmt.Errorf("trigger %s of %s: %w", t.Name, t.Account, err))
		<-f.window
		f.wg.Done()
	}
}

func (f *feeder) fail(err error) { f.failed.CompareAndSwap(nil, &err) }

// wait returns when all answers are there, with the first failure.
func (f *feeder) wait() error {
	f.wg.Wait()
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// traffic is the triggers that come in while questions are asked.
type traffic struct {
	feeder *feeder
	began  time.Time
	ended  chan struct{}
}

// startTraffic sends triggers at a rate: messages mostly, and now and then a
// limit or its end, until ctx ends.
func startTraffic(ctx context.Context, set *command.Set, cfg QueryConfig) *traffic {
	t := &traffic{feeder: newFeeder(set), began: time.Now(), ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		rnd := rand.New(rand.NewPCG(1, 2))
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for sent := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(t.began).Seconds() * float64(cfg.Rate)); sent < due; sent++ {
				t.feeder.send(ctx, trafficTrigger(rnd, cfg.Accounts, sent))
			}
		}
	}()
	return t
}

func trafficTrigger(rnd *rand.Rand, accounts, n int) domain.Trigger {
	account := rnd.IntN(accounts)
	switch n % 10 {
	case 0:
		return fleetTrigger(account, "rate_limited")
	case 1:
		return fleetTrigger(account, "connection_ready")
	}
	t := fleetTrigger(account, "message_pending")
	if n%2 == 0 {
		t.Name = "message_sent"
	}
	t.Key = fmt.Sprint("m-", n/2)
	return t
}

// rate is triggers per second so far.
func (t *traffic) rate() float64 {
	return float64(t.feeder.done.Load()) / time.Since(t.began).Seconds()
}

// wait returns when the traffic has ended.
func (t *traffic) wait() error {
	<-t.ended
	return t.feeder.wait()
}
