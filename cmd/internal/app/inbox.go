package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/cmd/internal/api"
)

// inboxParts are the durable inbox: its streams, and who reads them.
type inboxParts struct {
	store  *inbox.Store
	reader *inbox.Reader
	life   context.Context // of what waits for the inbox; ends with the app
}

// inboxReader is the partition whose owner reads the inbox for all.
const inboxReader = 0

// openInbox finds the inbox or creates it. From then on publishers can use it;
// what they say waits.
func (a *App) openInbox(ctx context.Context) error {
	nc, err := a.Connect("muster inbox")
	if err != nil {
		return fmt.Errorf("open the inbox: %w", err)
	}
	a.onEnd("inbox connection", time.Second, func(context.Context) error { nc.Close(); return nil })
	a.inbox.store, err = inbox.Open(ctx, nc, inbox.Limits{Bytes: int64(a.cfg.InboxMiB) << 20, Replicas: a.events.Replicas()})
	if err != nil {
		return fmt.Errorf("%w (--inbox-mib is its size)", err)
	}
	life, cancel := context.WithCancel(context.Background())
	a.inbox.life = life
	a.onEnd("waiting for the inbox", time.Second, func(context.Context) error { cancel(); return nil })
	if a.server != nil {
		log := a.log.With("component", "inbox")
		a.wg.Go(func() { guardInbox(life, a.inbox.store, log, a.diskFree, diskLook) })
	}
	return nil
}

// diskLook is the time between two looks at the disk for the inbox.
const diskLook = time.Second

// closer can make the inbox take nothing more; an inbox.Store is one.
type closer interface {
	Refuse(ctx context.Context, refuse bool) error
}

// guardInbox closes the inbox to publishers while there is little space on the
// disk: triggers are not judged then, and what waits for them must not take the
// last space of the history. It is opened when there is half as much again.
func guardInbox(ctx context.Context, in closer, log *slog.Logger, free func() (uint64, error), every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	closed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		left, err := free()
		full := err == nil && (left < blobRoom || (closed && left < blobRoom*3/2))
		if full == closed {
			continue
		}
		if err := in.Refuse(ctx, full); err != nil {
			log.Warn("the inbox cannot be told how much it may take", "error", err)
			continue
		}
		if closed = full; closed {
			log.Warn("the disk is nearly full: the inbox takes nothing more", "free_mib", left>>20)
		} else {
			log.Info("there is room again: the inbox takes messages")
		}
	}
}

// holdDeadlines lets a partition's deadlines wait for what is in the inbox when
// the partition is taken over.
func (a *App) holdDeadlines(partition int) <-chan struct{} {
	h := inbox.Holder{Store: a.inbox.store, Logger: a.log.With("component", "inbox", "partition", partition)}
	return h.Hold(a.inbox.life, a.wg.Go)
}

// startInbox begins to read the inbox. It is the first thing to end: the
// writers then still answer for what was taken.
func (a *App) startInbox(context.Context) error {
	nc, err := a.Connect("muster inbox forwarding")
	if err != nil {
		return fmt.Errorf("read the inbox: %w", err)
	}
	a.onEnd("inbox forwarding", time.Second, func(context.Context) error { nc.Close(); return nil })
	a.inbox.reader, err = inbox.NewReader(inbox.Config{
		Store: a.inbox.store, Judge: a.judged(), History: a.events, Owner: bus.NewClient(nc, bus.ClientConfig{}),
		Reads:  func() bool { return a.set.Owns(inboxReader) },
		Admit:  a.admit,
		Logger: a.log.With("component", "inbox"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	a.wg.Go(func() {
		defer close(ended)
		a.inbox.reader.Run(ctx)
	})
	a.onEnd("inbox", 30*time.Second, func(ctx context.Context) error {
		cancel()
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return nil
}

// listInbox answers with parked messages, the last one first.
func (a *App) listInbox(ctx context.Context, r api.InboxRequest) (any, error) {
	limit, err := limitOf(r.Limit)
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	if r.Before != "" {
		if before, err = strconv.ParseUint(r.Before, 10, 64); err != nil || before == 0 {
			return nil, invalid("%q is not the next of a page", r.Before)
		}
	}
	page, err := a.inbox.store.List(ctx, before, limit)
	if err != nil {
		return nil, err
	}
	waiting, err := a.inbox.store.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	answer := api.Inbox{Waiting: waiting, Total: page.Total, Parked: make([]api.ParkedMessage, 0, len(page.Parked))}
	for i := range page.Parked {
		answer.Parked = append(answer.Parked, parkedOf(&page.Parked[i]))
	}
	if page.Next != 0 {
		answer.Next = strconv.FormatUint(page.Next, 10)
	}
	return answer, nil
}

func parkedOf(p *inbox.Parked) api.ParkedMessage {
	m := api.ParkedMessage{
		ID: strconv.FormatUint(p.ID, 10), Account: p.Account, Subject: p.Subject, Reason: p.Reason,
		Published: timeText(p.Stored), ParkedAt: timeText(p.At), Headers: p.Header, Size: len(p.Body),
	}
	if utf8.Valid(p.Body) {
		m.Body = string(p.Body)
	} else {
		m.Bytes = p.Body
	}
	return m
}

// timeText writes a time, or nothing for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// settleMost is how many parked messages one request retries at most.
const settleMost = 500

// retryInbox puts parked messages into the inbox again.
func (a *App) retryInbox(ctx context.Context, r api.SettleRequest) (any, error) {
	return a.settle(ctx, r, a.inbox.store.Retry, func(upTo uint64) (int, uint64, error) {
		return a.inbox.store.RetryAll(ctx, upTo, settleMost)
	})
}

// dropInbox forgets parked messages.
func (a *App) dropInbox(ctx context.Context, r api.SettleRequest) (any, error) {
	return a.settle(ctx, r, a.inbox.store.Drop, func(uint64) (int, uint64, error) {
		n, err := a.inbox.store.DropAll(ctx)
		return n, 0, err
	})
}

func (a *App) settle(ctx context.Context, r api.SettleRequest, one func(context.Context, uint64) error,
	all func(upTo uint64) (int, uint64, error)) (any, error) {
	number := func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return 0, notFound("no message is parked under %q: an id is a number, as inbox list shows it", text)
		}
		return n, nil
	}
	switch {
	case r.All == (r.ID != ""):
		return nil, invalid("name one message (id), or all")
	case r.All:
		upTo := uint64(0)
		if r.UpTo != "" {
			var err error
			if upTo, err = number(r.UpTo); err != nil {
				return nil, err
			}
		}
		done, again, err := all(upTo)
		if err != nil {
			return nil, err
		}
		answer := api.Settled{Done: done}
		if again != 0 {
			answer.UpTo = strconv.FormatUint(again, 10)
		}
		return answer, nil
	}
	id, err := number(r.ID)
	if err != nil {
		return nil, err
	}
	if err = one(ctx, id); errors.Is(err, inbox.ErrNotParked) {
		return nil, notFound("no message is parked under %q", r.ID)
	}
	return api.Settled{Done: 1}, err
}
