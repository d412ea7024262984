package worker_test

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/bus/presence"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/natstest"
)

// whole is a Muster as far as connectors meet it: commands, the feed, workers
// and one query, on a real server, with its history in memory.
type whole struct {
	srv  *natstest.Server
	dir  string
	ends []func(context.Context) error
	set  *command.Set
	p    *presence.Presence
}

// startWhole starts one; stop ends it.
func startWhole(beat time.Duration) (*whole, error) {
	dir, err := os.MkdirTemp("", "muster-worker-*")
	if err != nil {
		return nil, err
	}
	w := &whole{dir: dir}
	if w.srv, err = natstest.Start(dir, natstest.Listen); err != nil {
		return nil, err
	}
	if err := w.open(beat); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *whole) open(beat time.Duration) error {
	conns := make([]*nats.Conn, 3)
	for i := range conns {
		var err error
		if conns[i], err = w.srv.Connect(); err != nil {
			return err
		}
	}
	judge := domain.NewJudge(lifecycle.Registry())
	f := feed.New(feed.Config{Conn: conns[0]})
	w.ends = append(w.ends, f.Close)
	var err error
	w.set, err = command.NewSet(command.Config{Log: memlog.New(1), Judge: judge, OnCommit: f.Offer})
	if err != nil {
		return err
	}
	if _, err := w.set.Open(context.Background(), 0, nil); err != nil {
		return err
	}
	w.ends = append(w.ends, w.set.Close)
	w.p, err = presence.New(presence.Config{
		Fleet: w.set, Machines: judge.Machines(), Partitions: 1, Blobs: new(memlog.Blobs), Beat: beat, RecoverAfter: 2 * beat, Hearing: conns[1].IsConnected,
	})
	if err != nil {
		return err
	}
	if err := w.p.Start(context.Background()); err != nil {
		return err
	}
	l, err := presence.Listen(conns[1], w.p)
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func(ctx context.Context) error {
		err := errors.Join(l.Close(ctx), w.p.Stop(ctx))
		conns[1].Close()
		return err
	})
	svc, err := bus.NewService(conns[2], bus.ServiceConfig{})
	if err != nil {
		return err
	}
	w.ends = append(w.ends, svc.Stop)
	if _, err := dispatch.Register(svc, dispatch.Config{Judge: w.set, Partitions: 1}); err != nil {
		return err
	}
	type request struct {
		Account string `json:"account"`
	}
	err = query.Register(svc, query.Config{}, []query.Query{{Name: "accounts.get", Handle: query.Of(func(_ context.Context, r request) (any, error) {
		l, ok, err := w.set.Look(domain.AccountID(r.Account))
		if err != nil || !ok {
			return nil, errors.Join(err, &bus.Error{Code: 404, Title: "not found", Detail: "no such account"})
		}
		return judge.Describe(l.Account), nil
	})}})
	if err != nil {
		return err
	}
	return conns[2].Flush()
}

// state is an account's state; "" when it is not known.
func (w *whole) state(id string) string {
	l, ok, _ := w.set.Look(domain.AccountID(id))
	if !ok {
		return ""
	}
	return l.Account.State
}

// user does what an operator does.
func (w *whole) user(id, trigger string) error {
	return w.set.Do(context.Background(), domain.Trigger{
		Account: domain.AccountID(id), Name: trigger, By: domain.ByUser, Expect: domain.NoExpect,
	}).Err
}

func (w *whole) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var errs []error
	for i := len(w.ends) - 1; i >= 0; i-- {
		errs = append(errs, w.ends[i](ctx))
	}
	w.srv.Stop()
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
