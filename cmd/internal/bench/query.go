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
	"time"

	"github.com/nats-io/nats.go"
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
		{"timeline of 20", "muster.q.timeline", one(`{"account":%q,"limit":20}`), 10},
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
	s, err := run(ctx, fleetConfig(dir, "group"), "")
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
	runtime.GC() // what pools hold goes with the second collection
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
