package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/domain"
)

// pass is one list against the accounts.
type pass struct {
	Report
	*source
	base   *url.URL
	at     int64 // when the list was asked for, unix ns
	marks  map[domain.AccountID]mark
	listed map[domain.AccountID]session
}

// sessions goes through the list.
func (p *pass) sessions(ctx context.Context) error {
	var ids []domain.AccountID
	for _, id := range sorted(p.listed) {
		delete(p.missing, id)
		a, ok, err := p.account(ctx, id)
		if err != nil {
			return err
		}
		if _, known := p.says(a, p.trigger(id), p.listed[id]); !known {
			p.Odd++
			p.sh.cfg.Logger.Debug("a session is in a state that is not known", "account", id, "status", payload.Clip(p.listed[id].status))
			continue
		}
		if ok && p.wanted(a, id) != nil {
			ids = append(ids, id)
		}
	}
	if p.kind.look != nil {
		ids = p.look(ctx, ids)
	}
	for _, id := range ids {
		if err := p.settle(ctx, id); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// look asks for single sessions, some side by side, and returns those of which
// something is known then: what the process says, or, where it cannot be asked
// for one, what the list says.
func (p *pass) look(ctx context.Context, ids []domain.AccountID) []domain.AccountID {
	found := make([]bool, len(ids))
	answers := make([]session, len(ids))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(p.sh.cfg.Parallel, len(ids)) {
		wg.Go(func() {
			for i := range next {
				answers[i], found[i] = p.lookAt(ctx, p.listed[ids[i]])
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	wg.Wait()
	var out []domain.AccountID
	for i, id := range ids {
		if !found[i] {
			p.Left++
			continue
		}
		p.listed[id] = answers[i]
		out = append(out, id)
	}
	return out
}

func (p *pass) lookAt(ctx context.Context, s session) (session, bool) {
	if p.sh.rate.Wait(ctx) != nil {
		return s, false
	}
	body, err := p.ask(ctx, p.kind.look(p.base, s.native))
	var status statusError
	if errors.As(err, &status) && status == http.StatusNotFound {
		return s, true
	}
	if err != nil {
		return s, false
	}
	o, err := payload.Parse(body)
	if err != nil {
		return s, false
	}
	return p.kind.again(s, o), true
}

// account is an account as it is now; ok is false when it is not for this poll:
// it is another process's, forgotten, or something came about it since the
// question.
func (p *pass) account(ctx context.Context, id domain.AccountID) (a *domain.Account, ok bool, err error) {
	m, marked := p.marks[id]
	if !marked && p.elsewhere[id] {
		return nil, false, nil
	}
	a, err = p.sh.cfg.Ledger.Account(ctx, id)
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("look at account %q: %w", id, err)
	case marked:
		delete(p.elsewhere, id)
		return a, a != nil && !a.Forgotten && p.markOf(a) == m && m.lastByItself < p.at, nil
	case a != nil:
		p.elsewhere[id] = true
		return a, false, nil
	}
	return nil, true, nil
}

// settle publishes what a session's status says of its account.
func (p *pass) settle(ctx context.Context, id domain.AccountID) error {
	a, ok, err := p.account(ctx, id)
	if err != nil {
		return err
	}
	if !ok {
		p.Left++
		return nil
	}
	triggers := p.wanted(a, id)
	n, err := p.publish(ctx, a, triggers)
	switch {
	case n > 0 && p.moves(a, triggers):
		p.Changed++
	case n > 0:
		p.Confirmed++
	case len(triggers) > 0:
		p.Left++
	}
	return err
}

// wanted is what there is to publish about an account, nil when state and status
// agree and nobody doubts it.
func (p *pass) wanted(a *domain.Account, id domain.AccountID) []domain.Trigger {
	t, s := p.trigger(id), p.listed[id]
	if calm(a, s, p.at) {
		return nil
	}
	triggers, _ := p.says(a, t, s)
	if p.differs(a, triggers) {
		return triggers
	}
	if a == nil || !p.doubted(a) {
		return nil
	}
	return p.confirmation(a, t, s.up, triggers)
}

// says is what a status says of an account. A server that has a session up says
// no more of an account that is up, limited or not.
func (p *pass) says(a *domain.Account, t domain.Trigger, s session) (triggers []domain.Trigger, known bool) {
	switch {
	case !s.up:
		return p.kind.says(a, t, s)
	case connector.In(a, connector.Running, connector.Degraded):
		return nil, true
	case connector.In(a, connector.Stopped, connector.LoggedOut):
		// Without an epoch only a start leads out of these two.
		return append(connector.One(t, "start"), connector.One(t, "connection_ready")...), true
	}
	return connector.Ready(a, t, s.identity), true
}

// trigger is what all triggers about an account have in common.
func (p *pass) trigger(id domain.AccountID) domain.Trigger {
	return domain.Trigger{Account: id, At: p.at, HasAt: true, Source: p.name(), Expect: domain.NoExpect}
}

// publish has triggers judged, as long as nobody else says something in between,
// and returns how many were.
func (p *pass) publish(ctx context.Context, a *domain.Account, triggers []domain.Trigger) (n int, err error) {
	expect := int64(0)
	if a != nil {
		expect = int64(a.Version)
	}
	for _, t := range triggers {
		if err := p.sh.rate.Wait(ctx); err != nil {
			return n, err
		}
		t.Expect = expect
		v, err := p.sh.cfg.Ledger.Judge(ctx, t)
		if err != nil {
			return n, fmt.Errorf("publish %s of account %q: %w", t.Name, t.Account, err)
		}
		if !v.Outcome.Appended() {
			return n, nil
		}
		n++
		p.Published++
		expect = int64(v.Version)
	}
	return n, nil
}

// enough is how many lists in a row must lack an account.
const enough = 2

// few is how many accounts may be missing however small the fleet is.
const few = 4

// vanished stops the accounts that the server has no more.
func (p *pass) vanished(ctx context.Context) error {
	if len(p.listed) == 0 {
		return nil
	}
	var gone []domain.AccountID
	alive := 0
	for _, id := range sorted(p.marks) {
		if m := p.marks[id]; m.state == connector.Idle || m.state == connector.Stopped {
			delete(p.missing, id)
			continue
		}
		alive++
		if _, ok := p.listed[id]; !ok {
			gone = append(gone, id)
		}
	}
	p.forgetGone()
	if len(gone) > few && 2*len(gone) > alive {
		p.sh.cfg.Logger.Warn("the list of a source lacks more than half of its accounts and is not believed; check that the key of the poll may see all sessions",
			"source", p.Name, "listed", len(p.listed), "missing", len(gone))
		return nil
	}
	for _, id := range gone {
		if p.missing[id]++; p.missing[id] < enough {
			continue
		}
		if err := p.vanish(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// forgetGone drops what is remembered of accounts that there are no more.
func (p *pass) forgetGone() {
	for id := range p.missing {
		if _, ok := p.marks[id]; !ok {
			delete(p.missing, id)
		}
	}
}

func (p *pass) vanish(ctx context.Context, id domain.AccountID) error {
	a, ok, err := p.account(ctx, id)
	if err != nil {
		return err
	}
	if !ok || a == nil {
		p.Left++
		return nil
	}
	t := p.trigger(id)
	t.Name, t.Reason.Code = "stop", "vanished"
	n, err := p.publish(ctx, a, []domain.Trigger{t})
	if n > 0 {
		p.Vanished++
		delete(p.missing, id)
	}
	return err
}
