package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/musterhq/muster/domain"
)

// ErrNotSent is the error of a trigger that SendMany did not send.
var ErrNotSent = errors.New("not sent")

// DefaultWindow is how many triggers SendMany has under way when it is not told.
const DefaultWindow = 1024

// Sent is what became of one trigger of SendMany.
type Sent struct {
	Index   int // of the trigger in the input, from 0
	Trigger domain.Trigger
	Reply   Reply // when Err is nil
	Err     error // as of Send, or ErrNotSent
}

// SendMany sends triggers, up to window at once (0: DefaultWindow), and calls
// each with what became of every one taken: in input order, one at a time, as
// soon as it is known, from a goroutine of its own.
//
// Triggers of one account are judged in input order: one is sent when the one
// before has its verdict. After one that got none, later ones of the account
// are not sent (ErrNotSent). When each returns false nothing more is sent: what
// was under way is still waited for and reported. SendMany returns when all is
// reported: nil, or ctx's error when ctx ended first.
func (c *Client) SendMany(ctx context.Context, triggers iter.Seq[domain.Trigger], window int, each func(Sent) bool) error {
	if window <= 0 {
		window = DefaultWindow
	}
	p := &pipeline{client: c, ctx: ctx, tails: map[domain.AccountID]*flight{}, room: make(chan struct{}, window)}
	flights := make(chan *flight, window)
	var wg sync.WaitGroup
	wg.Go(func() {
		for f := range flights {
			p.land(f, each)
		}
	})
	index := 0
	for t := range triggers {
		p.room <- struct{}{}
		flights <- p.launch(index, t)
		if p.stopped.Load() || ctx.Err() != nil {
			break
		}
		index++
	}
	close(flights)
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("send many: %w", context.Cause(ctx))
	}
	return nil
}

// pipeline is the triggers of one SendMany under way.
type pipeline struct {
	client  *Client
	ctx     context.Context // of the call that made it
	room    chan struct{}   // holds one token for each flight that has not landed
	stopped atomic.Bool

	mu    sync.Mutex
	tails map[domain.AccountID]*flight // the account's last flight, while it is under way or if it failed
}

// flight is one trigger under way. sent is complete before done is closed.
type flight struct {
	sent Sent
	done chan struct{}
}

// launch starts a trigger's flight, behind the account's one before.
func (p *pipeline) launch(index int, t domain.Trigger) *flight {
	f := &flight{sent: Sent{Index: index, Trigger: t}, done: make(chan struct{})}
	p.mu.Lock()
	before := p.tails[t.Account]
	p.tails[t.Account] = f
	p.mu.Unlock()
	go func() { // land waits for it
		defer close(f.done)
		f.sent.Reply, f.sent.Err = p.fly(before, t)
	}()
	return f
}

// fly sends a trigger when the flight before it, if any, has landed well.
func (p *pipeline) fly(before *flight, t domain.Trigger) (Reply, error) {
	if before != nil {
		<-before.done
		if before.sent.Err != nil {
			return Reply{}, fmt.Errorf("%w: an earlier trigger of %q got no verdict", ErrNotSent, t.Account)
		}
	}
	if p.stopped.Load() {
		return Reply{}, fmt.Errorf("%w: stopped before", ErrNotSent)
	}
	return p.client.Send(p.ctx, t)
}

// land waits for a flight, reports it, and makes room for the next.
func (p *pipeline) land(f *flight, each func(Sent) bool) {
	<-f.done
	p.mu.Lock()
	if account := f.sent.Trigger.Account; f.sent.Err == nil && p.tails[account] == f {
		delete(p.tails, account)
	}
	p.mu.Unlock()
	if !each(f.sent) {
		p.stopped.Store(true)
	}
	<-p.room
}
