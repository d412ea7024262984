package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
)

// callersAtTheEnd are callers who may be told that it is over, in a way after
// which they can send the same again, and who leave then.
func callersAtTheEnd(seed uint64) *crowd {
	return &crowd{
		ledger: &ledger{}, callers: 64, accounts: 500, seed: seed,
		refused: func(e *bus.Error) error {
			if !e.Retryable {
				return fmt.Errorf("refused for good: %w", e)
			}
			return nil
		},
		failed: func(err error) error {
			var broken *net.OpError
			if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrConnectionClosed) || errors.As(err, &broken) {
				return errLeave
			}
			return err
		},
	}
}

// endsWithin waits for the end of the process.
func (p *proc) endsWithin(d time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
		p.t.Fatalf("the process has not ended within %v:\n%s", d, p.out)
	}
}

// usualShutdowns is how often TestShutdownUnderLoad ends the server;
// MUSTER_SHUTDOWN_ROUNDS changes it.
const usualShutdowns = 50

// TestShutdownUnderLoad ends the server in order, again and again, while 64
// callers are sending. Each of them gets an answer or learns that it is over, in
// time; what was acknowledged is in the log; the exit code is 0.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	args := []string{"--data", t.TempDir(), "--log-transitions=false", "--snapshot-every", "2000", "--recover-after", "24h"}
	c := callersAtTheEnd(seed)
	rounds := roundsOf(t, "MUSTER_SHUTDOWN_ROUNDS", usualShutdowns)
	begin, longest := time.Now(), time.Duration(0)
	for round := range rounds {
		p := serve(t, args...)
		if round%10 == 1 { // the ledger holds all rounds; the end looks once more
			agreesWithLedger(t, p, c.ledger)
		}
		c.begin(t, p.nats)
		more(t, "acknowledgements", &c.acks, int64(1+rnd.IntN(400)), p)
		asked := time.Now()
		signal(t, p, syscall.SIGTERM)
		p.endsWithin(15 * time.Second)
		longest = max(longest, time.Since(asked))
		if p.err != nil {
			t.Fatalf("round %d: the process ended with %v:\n%s", round, p.err, p.out)
		}
		c.wait(t)
	}
	p := serve(t, args...)
	agreesWithLedger(t, p, c.ledger)
	p.stop()
	t.Logf("%d rounds in %v, the longest end %v, %d acknowledged, %d refused",
		rounds, time.Since(begin).Round(time.Millisecond), longest.Round(time.Millisecond), c.acks.Load(), c.refusals.Load())
}

// agreesWithLedger compares a server and its history with what was acknowledged.
func agreesWithLedger(t *testing.T, p *proc, l *ledger) {
	t.Helper()
	all := stored(t, p)
	l.check(t, all)
	if got, n := p.digest(); got != fold(all) || n != len(all) {
		t.Fatalf("the digest is %s over %d accounts, the log's fold %s over %d\n%s", got, n, fold(all), len(all), p.out)
	}
}

var partEnded = regexp.MustCompile(`msg=ended part=("[^"]*"|\S+) `)

// TestShutdownWithClientsThatHang ends the server while an HTTP client keeps its
// connection and another never finishes its request, and while a subscriber of
// the event streams reads nothing.
func TestShutdownWithClientsThatHang(t *testing.T) {
	for name, hang := range map[string]struct {
		begin  func(*testing.T, *proc)
		within time.Duration
	}{
		"HTTP": {hangingHTTP, 9 * time.Second}, "NATS": {hangingSubscriber, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--data", t.TempDir(), "--log-transitions=false", "--recover-after", "24h"}
			p := serve(t, args...)
			c := callersAtTheEnd(1)
			c.pad = 20_000 // the hanging subscriber's buffers are full soon
			c.begin(t, p.nats)
			hang.begin(t, p)
			more(t, "acknowledgements", &c.acks, 1000, p)
			signal(t, p, syscall.SIGTERM)
			p.endsWithin(hang.within)
			if p.err != nil {
				t.Errorf("the process ended with %v:\n%s", p.err, p.out)
			}
			c.wait(t)
			tellsItsEnd(t, p)
			p = serve(t, args...)
			agreesWithLedger(t, p, c.ledger)
			p.stop()
		})
	}
}

// tellsItsEnd expects one line for each part that has ended.
func tellsItsEnd(t *testing.T, p *proc) {
	t.Helper()
	told := map[string]int{}
	for _, m := range partEnded.FindAllStringSubmatch(p.out.String(), -1) {
		told[strings.Trim(m[1], `"`)]++
	}
	for _, part := range []string{"writers", "bus", "leases", "views", "log", "barrier", "log connection", "NATS server", "data directory", "HTTP"} {
		if told[part] != 1 {
			t.Errorf("the end of %q is told %d times, want once: %v", part, told[part], told)
		}
	}
}

// hangingHTTP opens a connection that stays after its request, and one that
// begins a request and stops.
func hangingHTTP(t *testing.T, p *proc) {
	t.Helper()
	hang(t, p.http, "GET /healthz HTTP/1.1\r\nHost: muster\r\n\r\n")
	hang(t, p.http, "GET /healthz HTTP/1.1\r\nHost: mus")
}

// hangingSubscriber subscribes to all events and reads none.
func hangingSubscriber(t *testing.T, p *proc) {
	t.Helper()
	hang(t, p.nats, "CONNECT {\"verbose\":false}\r\nSUB muster.ev.> 1\r\nSUB muster.feed.> 2\r\nPING\r\n")
}

// hang connects, says something, and then neither reads nor writes.
func hang(t *testing.T, addr, say string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, say); err != nil {
		t.Fatal(err)
	}
}

// TestSecondSignalEndsAtOnce: with a client that would hold the end up, a second
// signal ends the process, and nothing that was acknowledged is lost.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	args := []string{"--data", t.TempDir(), "--log-transitions=false", "--recover-after", "24h"}
	c := callersAtTheEnd(2)
	for round := range 4 {
		p := serve(t, args...)
		hangingHTTP(t, p)
		c.begin(t, p.nats)
		more(t, "acknowledgements", &c.acks, 300, p)
		signal(t, p, syscall.SIGTERM)
		if round%2 == 0 { // in the midst of it, or when only the hanging client is left
			poll(t, 10*time.Second, func() bool { return strings.Contains(p.out.String(), "msg=ending") }, p.out.String)
		} else {
			poll(t, 10*time.Second, func() bool { return strings.Contains(p.out.String(), `part="NATS server"`) }, p.out.String)
		}
		begin := time.Now()
		poll(t, 3*time.Second, func() bool { // the first one may just be taken
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
				return true
			default:
				return false
			}
		}, func() string { return "a second signal does not end the process at once:\n" + p.out.String() })
		t.Logf("round %d: ended %v after the second signal with %v", round, time.Since(begin).Round(time.Millisecond), p.err)
		c.wait(t)
	}
	p := serve(t, args...)
	agreesWithLedger(t, p, c.ledger)
	p.stop()
}
