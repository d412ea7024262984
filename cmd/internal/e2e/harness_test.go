package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// binary is the program under test, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" { // this process is a worker that a test has started
		os.Exit(workerMain())
	}
	dir, err := os.MkdirTemp("", "muster-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "muster")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/musterhq/muster/cmd/muster").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// proc is a running `muster serve`.
type proc struct {
	t    testing.TB
	cmd  *exec.Cmd
	nats string // host:port
	http string
	out  *lines
	done chan struct{} // closed when the process has ended
	err  error         // how it ended
}

// lines keeps what a process wrote to its standard error.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was written so far.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// freeAddr is a loopback address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs `muster serve` with its own addresses and the arguments.
func start(t testing.TB, args ...string) *proc {
	t.Helper()
	addr := freeAddr(t)
	return run(t, addr, append([]string{"--nats-listen", addr}, args...)...)
}

// startOn runs `muster serve` on the NATS server at an address.
func startOn(t testing.TB, addr string, args ...string) *proc {
	t.Helper()
	return run(t, addr, append([]string{"--nats-url", "nats://" + addr}, args...)...)
}

// run runs `muster serve`, whose clients connect to the address nats.
func run(t testing.TB, nats string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, nats: nats, http: freeAddr(t), out: &lines{}, done: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"serve", "--http", p.http}, args...)...)
	p.cmd.Stderr, p.cmd.Stdout = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// serve is start that waits until the server is ready.
func serve(t testing.TB, args ...string) *proc {
	t.Helper()
	p := start(t, args...)
	p.waitReady()
	return p
}

// waitReady waits until /readyz says 200. It fails the test when the process
// ends first or takes more than a minute.
func (p *proc) waitReady() {
	p.t.Helper()
	poll(p.t, time.Minute, func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("the server ended before it was ready: %v\n%s", p.err, p.out)
		default:
		}
		r, err := http.Get("http://" + p.http + "/readyz")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode == http.StatusOK
	}, func() string { return "the server did not become ready:\n" + p.out.String() })
}

// poll asks every few milliseconds until ok says so.
func poll(t testing.TB, within time.Duration, ok func() bool, why func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(within)
	defer bound.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound.C:
			t.Fatal(why())
		}
	}
}

// kill ends the process with SIGKILL and waits for it.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// stop ends the process with SIGTERM and expects it to end well.
func (p *proc) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("the server did not end within a minute of SIGTERM:\n%s", p.out)
	}
	if p.err != nil {
		p.t.Fatalf("the server ended with %v after SIGTERM:\n%s", p.err, p.out)
	}
}

// connect opens an ordinary NATS connection that does not come back by itself.
func (p *proc) connect() *nats.Conn {
	p.t.Helper()
	nc, err := nats.Connect("nats://"+p.nats, nats.NoReconnect(), nats.Timeout(5*time.Second))
	if err != nil {
		p.t.Fatalf("connect: %v\n%s", err, p.out)
	}
	p.t.Cleanup(nc.Close)
	return nc
}

// digest asks the server for its digest.
func (p *proc) digest() (digest string, accounts int) {
	p.t.Helper()
	nc := p.connect()
	defer nc.Close()
	m, err := nc.Request("muster.q.digest", []byte("{}"), 30*time.Second)
	if err != nil {
		p.t.Fatalf("ask for the digest: %v\n%s", err, p.out)
	}
	var a struct {
		Digest   string
		Accounts int
	}
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Digest == "" {
		p.t.Fatalf("digest: %v: %s (%v)", err, m.Data, m.Header)
	}
	return a.Digest, a.Accounts
}

// muster runs a command of the program and returns what it printed and its exit code.
func muster(t testing.TB, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr, c.Stdin = &o, &e, strings.NewReader(stdin)
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatalf("run muster %v: %v", args, err)
	}
	return o.String(), e.String(), code
}
