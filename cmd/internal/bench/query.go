package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	Accounts int
	Rate     int // triggers per second that come in meanwhile
	Callers  int // that ask side by side, each one question at a time
	During   time.Duration
	Say      func(row string) // gets each figure as it comes; nil: nobody
}

// QueryRun is one question's figures.
type QueryRun struct {
	Query string `json:"query"`
	Figure
}

// QueryReport is what Query found.
type QueryReport struct {
	Accounts int        `json:"accounts"`
	Triggers float64    `json:"triggers"` // per second, judged and stored meanwhile
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
}

func questionsAsked() []question {
	one := func(format string) func(*rand.Rand, int) []byte {
		return func(rnd *rand.Rand, n int) []byte { return fmt.Appendf(nil, format, fleetID(rnd.IntN(n))) }
	}
	return []question{
		{"can", "muster.q.can", one(`{"account":%q,"do":"send"}`)},
		{"can in a scope", "muster.q.can", one(`{"account":%q,"do":"send","scope":"new_chats"}`)},
		{"route", "muster.q.route", func(*rand.Rand, int) []byte { return []byte(`{"do":"send","limit":10}`) }},
		{"route by label", "muster.q.route", func(rnd *rand.Rand, _ int) []byte {
			return fmt.Appendf(nil, `{"do":"send","scope":"new_chats","labels":{"pool":%q},"limit":10}`, pools[rnd.IntN(len(pools))])
		}},
		{"accounts.get", "muster.q.accounts.get", one(`{"account":%q}`)},
		{"accounts.list, 100", "muster.q.accounts.list", one(`{"after":%q,"limit":100}`)},
		{"stats", "muster.q.stats", func(*rand.Rand, int) []byte { return []byte(`{}`) }},
	}
}

// fleetID is the id of the i-th account.
func fleetID(i int) string { return fmt.Sprintf("+1555%08d", i) }

// Query fills a server with accounts and measures what questions take while
// triggers come in.
func Query(ctx context.Context, cfg QueryConfig) (rep QueryReport, err error) {
	say := func(format string, args ...any) {
		if cfg.Say != nil {
			cfg.Say(fmt.Sprintf(format, args...))
		}
	}
	s, err := serve(ctx, cfg.Dir, "group", 4)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	rep.Accounts = cfg.Accounts
	begin := time.Now()
	if err := populate(ctx, s.app.Writers(), cfg.Accounts); err != nil {
		return rep, fmt.Errorf("fill the fleet: %w", err)
	}
	say("%d accounts written in %v", cfg.Accounts, time.Since(begin).Round(time.Millisecond))
	conns, closeAll, err := dial(s.app.NATSURL())
	if err != nil {
		return rep, err
	}
	defer closeAll()
	work, stop := context.WithCancel(ctx)
	traffic := startTraffic(work, s.app.Writers(), cfg)
	defer func() { stop(); err = errors.Join(err, traffic.wait()) }()
	if rep.Echo, err = askEcho(ctx, conns, cfg); err != nil {
		return rep, fmt.Errorf("echo: %w", err)
	}
	say("%-20s %s", "echo", rep.Echo.row())
	for _, q := range questionsAsked() {
		f, err := askLoad(ctx, conns, cfg, q)
		if err != nil {
			return rep, fmt.Errorf("%s: %w", q.name, err)
		}
		rep.Runs = append(rep.Runs, QueryRun{q.name, f})
		say("%-20s %s", q.name, f.row())
	}
	rep.Triggers = traffic.rate()
	say("meanwhile: %.0f triggers/s", rep.Triggers)
	return rep, nil
}

// row is the figure in a line.
func (f Figure) row() string {
	return fmt.Sprintf("%8.0f/s  p50 %6.3f ms  p99 %6.3f ms", f.Rate, f.P50, f.P99)
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
	return askLoad(ctx, conns, cfg, question{subject: "bench.query.echo", body: func(*rand.Rand, int) []byte { return make([]byte, 150) }})
}

// fleetTrigger is a trigger of the i-th account.
func fleetTrigger(i int, name string) domain.Trigger {
	return domain.Trigger{Account: domain.AccountID(fleetID(i)), Name: name, Source: fmt.Sprint("bench-worker-", i%50), Expect: domain.NoExpect}
}

// populate takes accounts over as running; one in ten is limited, and one in
// seven restricted.
func populate(ctx context.Context, set *command.Set, accounts int) error {
	f := newFeeder(set)
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
	return f.wait()
}

// feeder gives triggers to the writers, so many at a time.
type feeder struct {
	set    *command.Set
	window chan struct{}
	wg     sync.WaitGroup
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
