package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
)

// crowd is callers who send one trigger after the other and keep count of what
// became of each: every verdict goes into the ledger, every refusal and every
// failed request to a function.
type crowd struct {
	ledger   *ledger
	callers  int
	accounts int
	pad      int                    // bytes of data with each trigger
	refused  func(*bus.Error) error // an answer that is no verdict; an error ends the crowd and fails the test
	failed   func(error) error      // no answer; nil ends the caller who got none
	slow     bool                   // an answer may also fail to come in time
	seed     uint64

	acks, refusals atomic.Int64

	stopped chan struct{}
	wg      sync.WaitGroup
	mu      sync.Mutex
	faults  []error
}

// answerWithin is how long a caller waits: longer than any answer may take.
const answerWithin = 5 * time.Second

// begin lets the callers start, each on one of the servers in turn, with a
// connection for every 16 of them.
func (c *crowd) begin(t *testing.T, servers ...string) {
	t.Helper()
	c.stopped = make(chan struct{})
	var nc *nats.Conn
	for i := range c.callers {
		if i%16 == 0 || len(servers) > 1 {
			var err error
			// What goes wrong comes back from each request; the default is to print it, too.
			silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			if nc, err = nats.Connect("nats://"+servers[i%len(servers)], nats.NoReconnect(), silent); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
		}
		conn := nc
		c.wg.Go(func() { c.call(conn, i) })
	}
}

// end stops the callers, waits for them and fails the test if one met what it
// should not.
func (c *crowd) end(t *testing.T) {
	t.Helper()
	close(c.stopped)
	c.wait(t)
}

// wait waits until all callers have ended by themselves.
func (c *crowd) wait(t *testing.T) {
	t.Helper()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) > 0 {
		t.Fatalf("%d callers met what should not be; the first: %v", len(c.faults), c.faults[0])
	}
}

func (c *crowd) fault(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, err)
}

// call is one caller.
func (c *crowd) call(nc *nats.Conn, number int) {
	rnd := rand.New(rand.NewPCG(c.seed, uint64(number)))
	pad := strings.Repeat("x", c.pad)
	for step := 0; ; step++ {
		select {
		case <-c.stopped:
			return
		default:
		}
		account := fmt.Sprintf("acct-%04d", rnd.IntN(c.accounts))
		body := map[string]any{"id": c.ledger.id(), "account": account, "trigger": storyline[(step+rnd.IntN(3))%len(storyline)], "source": "load"}
		if pad != "" {
			body["data"] = map[string]any{"pad": pad}
		}
		if err := c.request(nc, account, body); err != nil {
			if !errors.Is(err, errLeave) {
				c.fault(err)
			}
			return
		}
	}
}

// errLeave ends a caller without a fault.
var errLeave = errors.New("the server is gone")

func (c *crowd) request(nc *nats.Conn, account string, body map[string]any) error {
	text, _ := json.Marshal(body)
	begin := time.Now()
	m, err := nc.Request("muster.cmd."+account, text, answerWithin)
	if errors.Is(err, nats.ErrTimeout) && !c.slow {
		return fmt.Errorf("%v got neither an answer nor an error within %v", body["id"], time.Since(begin))
	}
	if err != nil {
		if c.failed == nil {
			return fmt.Errorf("%v: %w", body["id"], err)
		}
		return c.failed(err)
	}
	var e *bus.Error
	if errors.As(bus.ErrorOf(m), &e) {
		c.refusals.Add(1)
		if c.refused == nil {
			return fmt.Errorf("%v: %w", body["id"], e)
		}
		return c.refused(e)
	}
	p := promise{ID: body["id"].(string)}
	if err := json.Unmarshal(m.Data, &p); err != nil {
		return fmt.Errorf("%v: the answer %q: %w", body["id"], m.Data, err)
	}
	c.ledger.add(p)
	c.acks.Add(1)
	return nil
}

// more waits until a count has grown by n.
func more(t *testing.T, what string, count *atomic.Int64, n int64, p *proc) {
	t.Helper()
	goal := count.Load() + n
	poll(t, time.Minute, func() bool { return count.Load() >= goal }, func() string {
		return fmt.Sprintf("no %d more %s came, the count stands at %d:\n%s", n, what, count.Load(), p.out)
	})
}
