package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/buildinfo"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/sim"
)

// demoFlags are the flags of muster demo.
type demoFlags struct {
	fleet fleetFlags
	rate  float64
	data  string
	nats  string
	http  string
	lines bool
}

func newDemo(c *cli) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a server with a simulated fleet, to look around",
		Long: `Run a server with a simulated fleet that lives, with three faults planted in it, and print
what to try from another terminal. Nothing of it is left when it is interrupted, unless
--data names a folder to keep.`,
		Example: "  muster demo\n  muster demo --accounts 100 --rate 5 --lines",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.demo(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	f.fleet.define(flags, 1000, "realistic")
	flags.Float64Var(&f.rate, "rate", 20, "triggers per second")
	flags.StringVar(&f.data, "data", "", "folder for the history (default: a temporary one, removed at the end)")
	flags.StringVar(&f.nats, "nats-listen", "127.0.0.1:4222", "address of the NATS server; when it is in use, a free port is taken")
	flags.StringVar(&f.http, "http", "127.0.0.1:8080", "address of the HTTP listener; when it is in use, a free port is taken")
	flags.BoolVar(&f.lines, "lines", false, "print a line for every transition")
	return cmd
}

// demoPast is how much of its life the fleet has behind it when the demo begins.
const demoPast = 30 * time.Minute

// demoDead is the worker that dies when the demo begins.
const demoDead = "sim-worker-1"

// demo writes the fleet's past, then runs the server and the fleet until ctx ends.
func (c *cli) demo(ctx context.Context, f *demoFlags) (err error) {
	play, err := f.play()
	if err != nil {
		return err
	}
	cfg, remove, err := f.config()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	past := play.Past(sim.Planted(play.Begin()))
	n, err := sim.WriteHistory(ctx, cfg.Data, cfg.Partitions, past)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "%d accounts have a past of %d events.\n", f.fleet.accounts, n)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a, ended, err := c.demoServer(run, ctx, cfg, f.lines)
	if err != nil {
		return err
	}
	playing, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	served := make(chan error, 1)
	go func() { // the server's end ends the fleet, too
		err := <-ended
		quit(err)
		served <- err
	}()
	at := *c
	at.server = a.NATSURL()
	_, err = at.play(playing, play, true, sim.LiveConfig{Begun: func() { c.begun(play.Fleet(), a.NATSURL(), cfg.HTTP) }})
	stop()
	return errors.Join(err, <-served)
}

// play makes the fleet. It talks less than a real one: more of what is seen is
// states.
func (f *demoFlags) play() (*sim.Play, error) {
	fleet, err := f.fleet.config()
	if err != nil {
		return nil, err
	}
	if f.rate <= 0 {
		return nil, usage("--rate is %v; it is greater than 0", f.rate)
	}
	fleet.Profile.Message, fleet.Profile.Customer = 4*fleet.Profile.Message, 4*fleet.Profile.Customer
	return sim.NewPlay(sim.PlayConfig{Fleet: fleet, Rate: f.rate, Past: demoPast})
}

// config is the server's, and how its data is removed.
func (f *demoFlags) config() (cfg config.Config, remove func() error, err error) {
	cfg, remove = config.Default(), func() error { return nil }
	cfg.Beat, cfg.RecoverAfter = 2*time.Second, 15*time.Second // so that a dead worker is soon seen
	cfg.LogLevel = "error"                                     // what the faults bring is asked for, not logged
	if cfg.NATSListen, err = freeOr(f.nats); err != nil {
		return cfg, remove, err
	}
	if cfg.HTTP, err = freeOr(f.http); err != nil {
		return cfg, remove, err
	}
	if cfg.Data = f.data; cfg.Data == "" {
		if cfg.Data, err = os.MkdirTemp("", "muster-demo-*"); err != nil {
			return cfg, remove, fmt.Errorf("make a folder for the demo: %w", err)
		}
		return cfg, func() error { return removeAll(cfg.Data) }, nil
	}
	if there, err := os.ReadDir(cfg.Data); err == nil && len(there) > 0 {
		return cfg, remove, usage("--data %s is not empty; the demo makes a history of its own. To look at an old one: muster serve --data %[1]s", cfg.Data)
	}
	return cfg, remove, nil
}

// removeAll removes a folder. A server that was slow to end may still write into
// it, so it is tried for some seconds.
func removeAll(dir string) (err error) {
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("remove the demo's folder: %w", err)
}

// freeOr returns an address if nobody listens there, else one of the same host
// with a free port.
func freeOr(addr string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", usage("%q is no address; it is written host:port", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// demoServer starts the server and waits until it is ready, or ctx ends. ended
// gets what Run returns.
func (c *cli) demoServer(run, ctx context.Context, cfg config.Config, lines bool) (*app.App, <-chan error, error) {
	machines, origins, err := registry("")
	if err != nil {
		return nil, nil, err
	}
	opts := app.Options{Config: cfg, Machines: machines, Origins: origins, Version: buildinfo.Read().Version, Logger: newLogger(c.err, &cfg)}
	if lines {
		opts.Transitions = c.err
	}
	run, stop := context.WithCancel(run)
	a, ended := app.New(opts), make(chan error, 1)
	go func() { // the caller, or what follows here, takes what it returns
		defer stop()
		ended <- a.Run(run)
	}()
	select {
	case <-a.Ready():
		return a, ended, nil
	case err := <-ended:
		return nil, nil, err
	case <-ctx.Done():
		stop()
		return nil, nil, <-ended
	}
}

// begun plants the last fault, and says what to try.
func (c *cli) begun(f *sim.Fleet, nats, http string) {
	_ = f.Kill(demoDead, time.Hour) // there always is one
	server := ""
	if nats != defaultServer {
		server = "export MUSTER_SERVER=" + nats + "\n"
	}
	fmt.Fprintf(c.err, demoGuide, nats, http, demoDead, indent(server+demoLines))
}

func indent(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ")
}

const demoGuide = `
The fleet lives. NATS: %s   HTTP: http://%s/readyz

Three faults are planted: the worker %s has died with all its accounts, demo-banned
is banned, and somebody else keeps taking over the session of demo-replaced.
In another terminal, in this folder, try:

%s

Interrupt (ctrl-C) to end.
`

// demoLines are what the demo says to try; the README's quick start has the same.
const demoLines = `./muster stats
./muster attention list
./muster why demo-replaced
./muster timeline demo-replaced
./muster can demo-banned || echo "exit code $?: it may not"
./muster route --label pool=eu -n 3
./muster workers
./muster tail -n 20
./muster send --account demo-1 --by user stop
./muster why demo-1
`
