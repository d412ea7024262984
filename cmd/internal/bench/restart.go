package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// RestartConfig is what Restart measures.
type RestartConfig struct {
	Program  string // path of muster, run as a process of its own
	Dir      string // where scratch directories are made; "" = the system's
	Accounts int
	Events   int
	Say      func(row string)
}

// RestartReport is what Restart found.
type RestartReport struct {
	Accounts int `json:"accounts"`
	Events   int `json:"events"`

	EmptyRSS        int64   `json:"empty_rss_bytes"`   // resident memory of a server without accounts
	LoadedRSS       int64   `json:"loaded_rss_bytes"`  // after a start from snapshots
	BytesPerAccount float64 `json:"bytes_per_account"` // the difference, by account
	// ReplayedRSS is the same after a start from the log alone: the NATS server
	// keeps an index of each block that was read, for some two minutes more.
	ReplayedRSS int64 `json:"replayed_rss_bytes"`

	ConsumerRate float64 `json:"consumer_rate"` // events/s of a bare ordered consumer per partition, all at once
	ReplayRate   float64 `json:"replay_rate"`   // events/s of a start from the log alone
	ReplayS      float64 `json:"replay_s"`      // until writers and views have folded all of it
	SnapshotS    float64 `json:"snapshot_s"`    // the same from snapshots and saved views
	LaunchS      float64 `json:"launch_s"`      // from the launch of the process to ready, without snapshots
	ReplayRatio  float64 `json:"replay_ratio"`  // ReplayRate / ConsumerRate
	SnapshotGain float64 `json:"snapshot_gain"` // ReplayS / SnapshotS
}

// Restart fills a data directory and measures what starts from it cost.
func Restart(ctx context.Context, cfg RestartConfig) (rep RestartReport, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "muster-bench-*")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	say := func(format string, args ...any) {
		if cfg.Say != nil {
			cfg.Say(fmt.Sprintf(format, args...))
		}
	}
	rep.Accounts, rep.Events = cfg.Accounts, cfg.Events
	empty, err := launch(ctx, cfg.Program, filepath.Join(dir, "empty"))
	if err != nil {
		return rep, err
	}
	rep.EmptyRSS = empty.settled()
	if err := empty.stop(); err != nil {
		return rep, err
	}
	say("an empty server: %d MiB resident", rep.EmptyRSS>>20)
	data := filepath.Join(dir, "data")
	took, err := fill(ctx, data, cfg.Accounts, cfg.Events)
	if err != nil {
		return rep, err
	}
	say("%d events of %d accounts written in %v", cfg.Events, cfg.Accounts, took.Round(time.Millisecond))
	if err := rep.starts(ctx, cfg, data, say); err != nil {
		return rep, err
	}
	rep.ReplayRatio, rep.SnapshotGain = rep.ReplayRate/rep.ConsumerRate, rep.ReplayS/rep.SnapshotS
	return rep, nil
}

// starts starts the program on the data: from snapshots, then without them.
func (rep *RestartReport) starts(ctx context.Context, cfg RestartConfig, data string, say func(string, ...any)) error {
	fast, err := launch(ctx, cfg.Program, data)
	if err != nil {
		return err
	}
	rep.SnapshotS = fast.replay.Seconds()
	rep.LoadedRSS = fast.settled()
	rep.BytesPerAccount = float64(rep.LoadedRSS-rep.EmptyRSS) / float64(cfg.Accounts)
	say("start from snapshots: folded in %.2f s; %d MiB resident, %.0f bytes per account", rep.SnapshotS, rep.LoadedRSS>>20, rep.BytesPerAccount)
	if err := fast.stop(); err != nil {
		return err
	}
	saved, err := filepath.Glob(filepath.Join(data, "nats", "jetstream", "$G", "streams", "OBJ_*"))
	if err != nil {
		return err
	}
	for _, s := range saved {
		if err := os.RemoveAll(s); err != nil {
			return err
		}
	}
	slow, err := launch(ctx, cfg.Program, data)
	if err != nil {
		return err
	}
	rep.ReplayS, rep.LaunchS = slow.replay.Seconds(), slow.ready.Seconds()
	rep.ReplayRate = float64(cfg.Events) / rep.ReplayS
	rep.ReplayedRSS = slow.settled()
	say("start from the log alone: folded in %.2f s, %.0f events/s; %d MiB resident", rep.ReplayS, rep.ReplayRate, rep.ReplayedRSS>>20)
	if err := slow.stop(); err != nil {
		return err
	}
	rep.ConsumerRate, err = consume(ctx, data, cfg.Events)
	say("bare ordered consumers: %.0f events/s", rep.ConsumerRate)
	return err
}

// fill writes a history through the writers, without a way over the network.
func fill(ctx context.Context, dir string, accounts, events int) (time.Duration, error) {
	r, err := serveDir(ctx, dir, "interval")
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	window := make(chan struct{}, 8000)
	for i := range events {
		t := step("fleet", i%accounts, (i/accounts)*accountsPerCaller)
		t.Account, t.ID = domain.AccountID(fmt.Sprintf("+1555%08d@example", i%accounts)), fmt.Sprintf("evt_%016x", i)
		window <- struct{}{}
		wg.Add(1)
		err := r.app.Writers().Submit(t, func(a command.Answer) {
			if a.Err != nil || !a.Verdict.Outcome.Appended() {
				mu.Lock()
				failed = fmt.Errorf("trigger %d: %v %s: %w", i, a.Verdict.Outcome, a.Verdict.Reason, a.Err)
				mu.Unlock()
			}
			<-window
			wg.Done()
		})
		if err != nil {
			return 0, errors.Join(err, r.stop())
		}
	}
	wg.Wait()
	took := time.Since(begin)
	return took, errors.Join(failed, r.stop())
}

// consume reads all event streams with one bare ordered consumer each, in the
// server's process as Muster does.
func consume(ctx context.Context, data string, events int) (rate float64, err error) {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: data, Sync: bus.SyncInterval})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, srv.Shutdown(context.WithoutCancel(ctx))) }()
	nc, err := srv.Connect("bench consumer")
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	begin, got := time.Now(), make(chan uint64)
	names := 0
	list := js.StreamNames(ctx, jetstream.WithStreamListSubject("muster.ev.>"))
	errs := make(chan error, 16)
	for name := range list.Name() {
		names++
		go func() {
			n, err := consumeStream(ctx, js, name, func(jetstream.Msg) error { return nil })
			errs <- err
			got <- n
		}()
	}
	var sum uint64
	for range names {
		if err := <-errs; err != nil {
			return 0, err
		}
		sum += <-got
	}
	if sum != uint64(events) {
		return 0, fmt.Errorf("the streams hold %d events, not %d", sum, events)
	}
	return float64(events) / time.Since(begin).Seconds(), nil
}

// consumeStream reads what a stream holds with one bare ordered consumer and
// returns how many messages that were.
func consumeStream(ctx context.Context, js jetstream.JetStream, name string, each func(jetstream.Msg) error) (uint64, error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return 0, err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(10000))
	if err != nil {
		return 0, err
	}
	defer it.Stop()
	want := s.CachedInfo().State.Msgs
	for range want {
		m, err := it.Next()
		if err == nil {
			err = each(m)
		}
		if err != nil {
			return 0, err
		}
	}
	return want, nil
}

// child is a server as a process of its own.
type child struct {
	cmd      *exec.Cmd
	launched time.Time
	ready    time.Duration // from launch to ready
	replay   time.Duration // the part of it in which the history became state
}

// launch starts a server and waits until it is ready.
func launch(ctx context.Context, program, data string) (*child, error) {
	addrs := [2]string{}
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		addrs[i] = l.Addr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	c := &child{}
	c.cmd = exec.CommandContext(ctx, program, "serve", "--data", data, "--nats-listen", addrs[0], "--http", addrs[1],
		"--log-transitions=false", "--log-level", "error", "--sync", "interval")
	c.cmd.Stderr = os.Stderr
	begin := time.Now()
	c.launched = begin
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		r, err := http.Get("http://" + addrs[1] + "/readyz")
		if err != nil {
			if c.cmd.Process.Signal(syscall.Signal(0)) != nil {
				return nil, fmt.Errorf("the server ended before it was ready")
			}
			continue
		}
		var body struct {
			Replay int64 `json:"replay_ms"`
		}
		err = json.NewDecoder(r.Body).Decode(&body)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK && err == nil {
			c.ready, c.replay = time.Since(begin), time.Duration(body.Replay)*time.Millisecond
			return c, nil
		}
	}
}

// settled is the process's resident memory a while after the start, when what
// only the replay needed was given back.
func (c *child) settled() int64 {
	<-time.After(c.ready + settleAfter - time.Since(c.launched))
	return c.rss()
}

// settleAfter is when, after it is ready, a server has given back what only its
// start needed.
const settleAfter = 20 * time.Second

func (c *child) rss() int64 { return resident(c.cmd.Process.Pid) }

// resident is a process's resident memory in bytes, 0 when it cannot be read.
func resident(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return c.cmd.Wait()
}
