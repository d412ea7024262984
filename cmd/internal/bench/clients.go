package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// clients send triggers over NATS at a rate, until they are stopped.
type clients struct {
	answered atomic.Int64
	failed   atomic.Pointer[error]
	end      chan struct{}
	wg       sync.WaitGroup
	close    func()
}

// startClients lets some connections send what became of messages of random
// accounts, rate of them a second in all; 0 = none.
func startClients(ctx context.Context, url string, rate, accounts int) (*clients, error) {
	conns, closeAll, err := dial(url)
	if err != nil {
		return nil, err
	}
	c := &clients{end: make(chan struct{}), close: closeAll}
	if rate <= 0 {
		return c, nil
	}
	for i, nc := range conns {
		client := bus.NewClient(nc, bus.ClientConfig{Timeout: firedWithin})
		c.wg.Go(func() {
			err := client.SendMany(ctx, c.paced(i, float64(rate)/float64(len(conns)), accounts), 4000, c.took)
			if err != nil {
				c.fail(err)
			}
		})
	}
	return c, nil
}

// paced are the triggers of one connection, each when its time has come.
func (c *clients) paced(connection int, rate float64, accounts int) iter.Seq[domain.Trigger] {
	return func(yield func(domain.Trigger) bool) {
		rnd := rand.New(rand.NewPCG(uint64(connection), 3))
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		begin := time.Now()
		for n := 0; ; {
			select {
			case <-c.end:
				return
			case <-tick.C:
			}
			for due := int(time.Since(begin).Seconds() * rate); n < due; n++ {
				t := fleetTrigger(rnd.IntN(accounts), "message_sent")
				t.Key = fmt.Sprintf("m-%d-%d", connection, n)
				if !yield(t) {
					return
				}
			}
		}
	}
}

// took notes what became of one trigger.
func (c *clients) took(s bus.Sent) bool {
	var refused *bus.Error
	switch {
	case s.Err == nil && !s.Reply.Verdict.Outcome.Appended():
		c.fail(fmt.Errorf("trigger %s of %s: %v %s", s.Trigger.Name, s.Trigger.Account, s.Reply.Verdict.Outcome, s.Reply.Verdict.Reason))
	case errors.As(s.Err, &refused) && refused.Retryable: // a full queue
	case s.Err != nil:
		c.fail(fmt.Errorf("trigger %s of %s: %w", s.Trigger.Name, s.Trigger.Account, s.Err))
	default:
		c.answered.Add(1)
	}
	return c.failed.Load() == nil
}

func (c *clients) fail(err error) { c.failed.CompareAndSwap(nil, &err) }

// stop ends the sending and returns the first failure.
func (c *clients) stop() error {
	close(c.end)
	c.wg.Wait()
	c.close()
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}
