package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/cmd/internal/sim"
)

// fleetFlags are the flags that describe a simulated fleet.
type fleetFlags struct {
	accounts int
	seed     uint64
	machine  string
	profile  string
	workers  int
}

func (f *fleetFlags) define(flags *pflag.FlagSet, accounts int, profile string) {
	flags.IntVar(&f.accounts, "accounts", accounts, "how many accounts")
	flags.Uint64Var(&f.seed, "seed", 1, "the same seed gives the same fleet")
	flags.StringVar(&f.machine, "machine", "", "machine of all accounts (default: a mix; "+strings.Join(sim.Machines(), ", ")+")")
	flags.StringVar(&f.profile, "profile", profile, "what kind of fleet: "+strings.Join(sim.ProfileNames(), ", "))
	flags.IntVar(&f.workers, "workers", 0, "workers that host the connections (default: one for 250 accounts, 2 at least)")
}

// config checks the flags.
func (f *fleetFlags) config() (sim.Config, error) {
	p, err := sim.ProfileNamed(f.profile)
	if err != nil {
		return sim.Config{}, as(errUsage, err)
	}
	cfg := sim.Config{Accounts: f.accounts, Seed: f.seed, Machine: f.machine, Profile: p, Workers: f.workers}
	if _, err := sim.New(cfg); err != nil {
		return cfg, as(errUsage, err)
	}
	return cfg, nil
}

func newSimulate(c *cli) *cobra.Command {
	var f fleetFlags
	var rate float64
	var during time.Duration
	var fast bool
	var out, start string
	var most int
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Play a fleet of accounts: to the server, or into a trace",
		Long: `Play a fleet of messaging accounts: onboarding with QR codes, connections that break and
come back, limits, bans, logouts, workers that die, messages and conversations. The same
seed gives the same fleet.

Without --fast it sends what the fleet says to the server, from workers that beat, until it
is interrupted or --for has passed; --rate sets the pace. It waits for a server that is away.

With --fast there is no server: it writes the fleet's history as a trace, one trigger a line,
which "muster try" judges.`,
		Example: `  muster simulate --accounts 500 --rate 100
  muster simulate --profile storm --for 5m
  muster simulate --fast --accounts 50 --for 2h --out fleet.jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config()
			switch {
			case err != nil:
				return err
			case rate < 0 || during < 0 || most < 0:
				return usage("--rate, --for and --count are not negative")
			case !fast && (out != "-" || start != "" || most != 0):
				return usage("--out, --start and --count are for --fast")
			case fast && cmd.Flags().Changed("rate"):
				return usage("--rate is for a server; --fast writes as fast as it can")
			case !fast:
				return c.simulate(cmd.Context(), cfg, rate, during)
			}
			if start != "" {
				if cfg.Start, err = time.Parse(time.RFC3339, start); err != nil {
					return usage("--start is %q; it is a time such as 2026-01-01T10:00:00Z", start)
				}
			}
			return c.writeTrace(cfg, out, during, most)
		},
	}
	flags := cmd.Flags()
	f.define(flags, 200, "realistic")
	flags.Float64Var(&rate, "rate", 0, "triggers per second (0: as many as a real fleet of this size sends)")
	flags.DurationVar(&during, "for", 0, "end after this; with --fast so much of the fleet's life (0: until interrupted; with --fast 24h)")
	flags.BoolVar(&fast, "fast", false, "write a trace instead, on a virtual clock")
	flags.StringVar(&out, "out", "-", "with --fast: the file to write (- is stdout)")
	flags.StringVar(&start, "start", "", "with --fast: when the fleet's life begins (default 2026-01-01T00:00:00Z)")
	flags.IntVar(&most, "count", 0, "with --fast: end after so many triggers (0: when --for has passed)")
	return cmd
}

// writeTrace writes a fleet's history.
func (c *cli) writeTrace(cfg sim.Config, path string, during time.Duration, most int) (err error) {
	if during == 0 {
		during = 24 * time.Hour
	}
	fleet, err := sim.New(cfg)
	if err != nil {
		return err
	}
	to := c.out
	if path != "-" {
		file, err := os.Create(path)
		if err != nil {
			return as(errUsage, err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	n, err := writeItems(bufio.NewWriterSize(to, 1<<16), fleet, during, most)
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err == nil && path != "-" {
		fmt.Fprintf(c.err, "%d triggers of %d accounts written to %s\n", n, cfg.Accounts, path)
	}
	return err
}

func writeItems(w *bufio.Writer, fleet *sim.Fleet, during time.Duration, most int) (n int, err error) {
	var line []byte
	for item := range fleet.Items(during) {
		if item.Signal != sim.NoSignal {
			continue // a trace has no workers
		}
		line = append(item.Trigger.AppendJSON(line[:0]), '\n')
		if _, err = w.Write(line); err != nil {
			break
		}
		if n++; n == most {
			break
		}
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return n, fmt.Errorf("write the trace: %w", err)
	}
	return n, nil
}

// simulate plays a fleet to the server.
func (c *cli) simulate(ctx context.Context, cfg sim.Config, rate float64, during time.Duration) error {
	play, err := sim.NewPlay(sim.PlayConfig{Fleet: cfg, Rate: rate})
	if err != nil {
		return err
	}
	report, err := c.play(ctx, play, false, sim.LiveConfig{For: during, Progress: func(r sim.Report) { fmt.Fprintln(c.err, sentence(r)) }})
	if err != nil {
		return c.hint(err)
	}
	return c.show(report, func(t *grid) { t.line("%s", sentence(report)) })
}

// patient is how often a simulated connector tries to send a trigger: as often as it takes.
const patient = 1 << 30

// play sends what a fleet says to the server that --server names. continues says
// that its accounts are there already.
func (c *cli) play(ctx context.Context, play *sim.Play, continues bool, live sim.LiveConfig) (sim.Report, error) {
	connection := c.connectConfig("muster simulate")
	connection.NoBuffer = true
	nc, err := bus.Connect(ctx, connection)
	if err != nil {
		return sim.Report{}, err
	}
	defer nc.Close()
	live.Client = bus.NewClient(nc, bus.ClientConfig{Tries: patient, Timeout: 10 * time.Second})
	welcomed := map[string]bool{}
	live.Host = func(ctx context.Context, name string) (sim.Host, error) {
		first := !welcomed[name]
		welcomed[name] = true
		return c.host(ctx, name, continues && first)
	}
	return play.Live(ctx, live)
}

// simulatedHost is a worker with a connection of its own, so that it can die.
type simulatedHost struct {
	*worker.Worker
	hangUp func()
}

func (c *cli) host(ctx context.Context, name string, continues bool) (*simulatedHost, error) {
	nc, err := bus.Connect(ctx, c.connectConfig(name))
	if err != nil {
		return nil, err
	}
	w, err := worker.Start(ctx, nc, worker.Config{Name: name, Continues: continues})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &simulatedHost{w, nc.Close}, nil
}

// Die ends the worker without a word.
func (h *simulatedHost) Die() {
	h.hangUp()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.Stop(gone) // it cannot say goodbye, which is what is wanted
}

// Leave ends the worker in order.
func (h *simulatedHost) Leave(ctx context.Context) error {
	defer h.hangUp()
	return h.Stop(ctx)
}

// sentence is a report for people.
func sentence(r sim.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d triggers sent in %.0f s, %.0f/s", r.Sent, r.Seconds, r.Rate)
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(&b, ", %d %s", r.Outcomes[o], o)
	}
	if r.Failed > 0 {
		fmt.Fprintf(&b, "; %d got no verdict, the last one because: %s", r.Failed, r.Failure)
	}
	return b.String()
}
