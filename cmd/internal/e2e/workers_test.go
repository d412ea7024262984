package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/domain"
)

// The environment of a worker's process.
const (
	workerEnv  = "MUSTER_E2E_WORKER"  // its name
	serverEnv  = "MUSTER_E2E_SERVER"  // where Muster is
	triggerEnv = "MUSTER_E2E_TRIGGER" // what it reports of its accounts
)

// perWorker is how many accounts a worker hosts; every tenth is logged out.
const perWorker = 300

func accountsOf(worker string) iter.Seq2[domain.AccountID, bool] {
	return func(yield func(domain.AccountID, bool) bool) {
		for i := range perWorker {
			if !yield(domain.AccountID(fmt.Sprintf("%s-%03d", worker, i)), i%10 == 9) {
				return
			}
		}
	}
}

// workerMain is a worker's process: it says hello, reports its accounts, says on
// its output that it has, and beats until its input ends.
func workerMain() int {
	if err := workUntil(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func workUntil(input io.Reader) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := bus.Connect(ctx, bus.ConnectConfig{URL: "nats://" + os.Getenv(serverEnv), Name: "worker", Wait: time.Minute})
	if err != nil {
		return err
	}
	defer nc.Close()
	w, err := worker.Start(ctx, nc, worker.Config{Name: os.Getenv(workerEnv)})
	if err != nil {
		return err
	}
	if err := report(ctx, bus.NewClient(nc, bus.ClientConfig{}), w.Name(), os.Getenv(triggerEnv)); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, input); err != nil {
		return err
	}
	return w.Stop(ctx)
}

// report gives one trigger for each account of a source: adopt in its state, or
// another one for those that are not logged out.
func report(ctx context.Context, c *bus.Client, source, name string) error {
	triggers := func(yield func(domain.Trigger) bool) {
		for id, out := range accountsOf(source) {
			t := domain.Trigger{Account: id, Name: name, Source: source, Expect: domain.NoExpect}
			switch {
			case name == "adopt" && out:
				t.Data = domain.Data{"state": "LOGGED_OUT"}
			case name == "adopt":
				t.Data = domain.Data{"state": "RUNNING"}
			case out:
				continue
			}
			if !yield(t) {
				return
			}
		}
	}
	var wrong error
	err := c.SendMany(ctx, triggers, 64, func(s bus.Sent) bool {
		if s.Err == nil && s.Reply.Outcome == domain.Applied {
			return true
		}
		wrong = fmt.Errorf("%s %s: %v %v (%s)", s.Trigger.Account, name, s.Err, s.Reply.Outcome, s.Reply.Reason)
		return false
	})
	return errors.Join(err, wrong)
}

// host is a worker's process.
type host struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	input io.Closer
	gone  bool
}

// startWorker starts a worker and waits until it has reported its accounts.
func startWorker(t testing.TB, p *proc, name, trigger string) *host {
	t.Helper()
	h := &host{t: t, name: name, cmd: exec.Command(os.Args[0])}
	h.cmd.Env = append(os.Environ(), workerEnv+"="+name, serverEnv+"="+p.nats, triggerEnv+"="+trigger)
	h.cmd.Stderr = os.Stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.input = in
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("worker %s said %q, %v\n%s", name, line, err, p.out)
	}
	return h
}

// kill ends the worker with SIGKILL.
func (h *host) kill() {
	if h.gone {
		return
	}
	h.gone = true
	_ = h.cmd.Process.Kill() // it may have ended already
	_ = h.cmd.Wait()         // killed
}

// end lets the worker say goodbye.
func (h *host) end() {
	h.t.Helper()
	h.gone = true
	if err := errors.Join(h.input.Close(), h.cmd.Wait()); err != nil {
		h.t.Fatalf("worker %s ended with %v", h.name, err)
	}
}

// fleet is all accounts of a source, as the command line lists them.
func fleet(t testing.TB, p *proc, source string) []domain.AccountView {
	t.Helper()
	out, stderr, code := muster(t, "", "accounts", "list", "--prefix", source+"-", "--all", "-o", "jsonl", "--server", "nats://"+p.nats)
	if code != 0 {
		t.Fatalf("list accounts: exit code %d: %s\n%s", code, stderr, p.out)
	}
	var all []domain.AccountView
	for line := range strings.Lines(out) {
		var a domain.AccountView
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if len(all) != perWorker {
		t.Fatalf("%s has %d accounts, want %d", source, len(all), perWorker)
	}
	return all
}

// summary counts accounts by state and conditions.
func summary(all []domain.AccountView) string {
	counts := map[string]int{}
	for _, a := range all {
		key := a.State
		for _, c := range a.Conditions {
			key += "+" + c.Name
		}
		counts[key]++
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(parts, ", ")
}

// become waits until the accounts of a source are as a summary says.
func become(t testing.TB, p *proc, source, want string) []domain.AccountView {
	t.Helper()
	var all []domain.AccountView
	poll(t, time.Minute, func() bool {
		all = fleet(t, p, source)
		return summary(all) == want
	}, func() string {
		return fmt.Sprintf("the accounts of %s are %s, want %s\n%s", source, summary(all), want, p.out)
	})
	return all
}

// untouched checks that nothing was written about the accounts of a source
// since they were reported.
func untouched(t testing.TB, p *proc, source string) {
	t.Helper()
	for _, a := range fleet(t, p, source) {
		if a.Version != 1 {
			t.Errorf("account %s of %s was touched: version %d, %s, %+v", a.ID, source, a.Version, a.State, a.Conditions)
		}
	}
}

func when(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func workers(t testing.TB, p *proc) map[string]string {
	t.Helper()
	out, stderr, code := muster(t, "", "workers", "-o", "json", "--server", "nats://"+p.nats)
	var w struct {
		Workers []struct {
			Name, State string
			Accounts    int
		}
	}
	if err := json.Unmarshal([]byte(out), &w); code != 0 || err != nil {
		t.Fatalf("workers: exit code %d, %v: %s", code, err, stderr)
	}
	got := map[string]string{}
	for _, one := range w.Workers {
		got[one.Name] = fmt.Sprintf("%s %d", one.State, one.Accounts)
	}
	return got
}

const (
	beat         = time.Second
	recoverAfter = 2 * time.Second
)

// TestWorkerKilled kills one of two workers. Within three beats its accounts may
// not send, some time later they are taken for lost; a new run of the worker
// brings them back. The other worker's accounts are not touched.
func TestWorkerKilled(t *testing.T) {
	p := serve(t, "--data", t.TempDir(), "--beat", beat.String(), "--recover-after", recoverAfter.String(), "--log-transitions=false")
	dies, lives := startWorker(t, p, "dies", "adopt"), startWorker(t, p, "lives", "adopt")
	defer lives.end()
	become(t, p, "dies", "30 LOGGED_OUT, 270 RUNNING")
	killed := time.Now()
	dies.kill()

	for _, a := range become(t, p, "dies", "30 LOGGED_OUT+unvouched, 270 RECONNECTING+unvouched") {
		lost := when(t, a.Conditions[0].Since)
		if a.Can.Send || lost.After(killed.Add(4*beat)) { // three, and one for a machine that is busy
			t.Fatalf("%s may send: %v; its worker was killed at %v and missed at %v", a.ID, a.Can.Send, killed, lost)
		}
		if moved := when(t, a.Since); a.State == "RECONNECTING" && moved.Sub(lost) < recoverAfter {
			t.Fatalf("%s was recovered %v after its worker was missed, want %v", a.ID, moved.Sub(lost), recoverAfter)
		}
	}
	if got := workers(t, p); got["dies"] != "lapsed 300" || got["lives"] != "live 300" || len(got) != 2 {
		t.Fatalf("workers: %v", got)
	}

	again := startWorker(t, p, "dies", "connection_ready")
	become(t, p, "dies", "30 LOGGED_OUT, 270 RUNNING")
	again.end() // it says so, and nobody has to wait for its silence
	poll(t, time.Minute, func() bool { return workers(t, p)["dies"] == "left 300" }, func() string { return fmt.Sprint(workers(t, p)) })
	untouched(t, p, "lives")
}

// TestMusterKilledAmongWorkers kills Muster, and a worker while it is down. After
// the restart: what a live worker stands behind is untouched, the dead one's
// accounts are taken for lost, those that are logged out wait, and those of a
// webhook, which nobody can ask, are marked.
func TestMusterKilledAmongWorkers(t *testing.T) {
	args := []string{"--data", t.TempDir(), "--beat", beat.String(), "--recover-after", "5s", "--log-transitions=false"}
	p := serve(t, args...)
	dies, lives := startWorker(t, p, "dies", "adopt"), startWorker(t, p, "lives", "adopt")
	hook := p.connect()
	if err := report(t.Context(), bus.NewClient(hook, bus.ClientConfig{}), "hook", "adopt"); err != nil {
		t.Fatal(err)
	}
	p.kill()
	dies.kill()

	p = run(t, p.nats, append(args, "--nats-listen", p.nats)...)
	p.waitReady()
	defer lives.end()
	become(t, p, "dies", "30 LOGGED_OUT+unvouched, 270 RECONNECTING+unvouched")
	become(t, p, "hook", "30 LOGGED_OUT, 270 RUNNING+unverified")
	if got := workers(t, p); got["dies"] != "lapsed 300" || got["lives"] != "live 300" || len(got) != 2 {
		t.Fatalf("workers: %v", got)
	}
	untouched(t, p, "lives")

	// The webhook's next word is all it takes.
	nc := p.connect()
	if err := report(t.Context(), bus.NewClient(nc, bus.ClientConfig{}), "hook", "connection_lost"); err != nil {
		t.Fatal(err)
	}
	become(t, p, "hook", "270 DISCONNECTED, 30 LOGGED_OUT")
}
