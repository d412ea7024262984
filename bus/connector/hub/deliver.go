package hub

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// maxTries is how often an account is looked at again after another writer was
// there first.
const maxTries = 16

var errContended = errors.New("other writers kept changing the account")

// fate is what became of a delivery, for one account or as a whole. The greater
// one counts when there are several.
type fate int

const (
	ignored fate = iota
	duplicate
	invalid
	judged
)

// job is a delivery for one account.
type job struct {
	n       int // index of the delivery
	account domain.AccountID
	fate    fate
	why     string // of an invalid one
}

// deliver has the facts of a request judged and counts what became of them. An
// error means that some of it may not be durable.
func (h *Hub) deliver(ctx context.Context, e *endpoint, req *connector.Request, list []connector.Delivery) error {
	var waiting, done []*job
	flush := func() error {
		err := h.run(ctx, e, req, list, waiting)
		done, waiting = append(done, waiting...), nil
		return err
	}
	for n := range list {
		d := &list[n]
		if d.Map == nil {
			continue
		}
		for _, id := range d.Accounts {
			waiting = append(waiting, &job{n: n, account: id})
		}
		if d.Of == nil {
			continue
		}
		if err := flush(); err != nil { // who is meant depends on what came before
			return err
		}
		ids, err := h.cfg.Ledger.OfSource(ctx, e.source.Name, d.Of)
		if err != nil {
			return fmt.Errorf("list the accounts of source %q: %w", e.source.Name, err)
		}
		for _, id := range ids {
			waiting = append(waiting, &job{n: n, account: id})
		}
	}
	if err := flush(); err != nil {
		return err
	}
	e.tally(req, list, done)
	return nil
}

// run serves jobs: those of one account in order, accounts side by side.
func (h *Hub) run(ctx context.Context, e *endpoint, req *connector.Request, list []connector.Delivery, jobs []*job) error {
	if len(jobs) == 1 {
		return h.chain(ctx, e, req, list, jobs)
	}
	chains := map[domain.AccountID][]*job{}
	var order []domain.AccountID
	for _, j := range jobs {
		if chains[j.account] == nil {
			order = append(order, j.account)
		}
		chains[j.account] = append(chains[j.account], j)
	}
	if len(order) == 1 {
		return h.chain(ctx, e, req, list, jobs)
	}
	errs := make([]error, len(order))
	slots := make(chan struct{}, h.cfg.Parallel)
	var wg sync.WaitGroup
	for i, id := range order {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = h.chain(ctx, e, req, list, chains[id])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// chain serves jobs of one account while nobody else does.
func (h *Hub) chain(ctx context.Context, e *endpoint, req *connector.Request, list []connector.Delivery, jobs []*job) error {
	stripe := h.stripes[maphash.String(h.seed, string(jobs[0].account))%uint64(len(h.stripes))]
	select {
	case stripe <- struct{}{}:
		defer func() { <-stripe }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, j := range jobs {
		if err := h.one(ctx, e, req, &list[j.n], j); err != nil {
			return fmt.Errorf("account %q: %w", j.account, err)
		}
	}
	return nil
}

// one maps a delivery on the account as it is and has its triggers judged. What
// was mapped on an account that has changed meanwhile is mapped again.
func (h *Hub) one(ctx context.Context, e *endpoint, req *connector.Request, d *connector.Delivery, j *job) error {
	for range maxTries {
		a, err := h.cfg.Ledger.Account(ctx, j.account)
		if err != nil {
			return err
		}
		id, seen := identify(d, a)
		if seen {
			j.fate = duplicate
			return nil
		}
		triggers := d.Map(a)
		if len(triggers) == 0 {
			j.fate = ignored
			return nil
		}
		fill(triggers, e.source, req, d, j.account, id)
		if !d.Verbatim {
			triggers[0].Expect = versionOf(a)
		}
		again, err := h.judge(ctx, e, d, j, triggers)
		if err != nil || !again {
			return err
		}
	}
	return errContended
}

func versionOf(a *domain.Account) int64 {
	if a == nil {
		return 0
	}
	return int64(a.Version)
}

// fill gives triggers what their mapping left open.
func fill(triggers []domain.Trigger, s *connector.Source, req *connector.Request, d *connector.Delivery, account domain.AccountID, id string) {
	for i := range triggers {
		t := &triggers[i]
		t.Account = account
		if t.Source == "" {
			t.Source = s.Name
		}
		if t.ID == "" && id != "" {
			t.ID = nth(id, i+1)
		}
		if !t.HasAt {
			t.At, t.HasAt = req.At, true
		}
		if !d.Verbatim {
			t.Expect = domain.NoExpect
		}
	}
}

// judge has the triggers judged one after the other. again says that the account
// was not what they were mapped on; then nothing was stored.
func (h *Hub) judge(ctx context.Context, e *endpoint, d *connector.Delivery, j *job, triggers []domain.Trigger) (again bool, err error) {
	for i := range triggers {
		v, err := h.judgeOne(ctx, triggers[i], i > 0)
		if err != nil {
			return false, err
		}
		if i == 0 && v.Outcome == domain.Conflict && !d.Verbatim {
			return true, nil
		}
		e.count.outcomes[v.Outcome].Add(1)
		switch {
		case v.Outcome == domain.Duplicate && i == 0:
			j.fate = duplicate
			return false, nil
		case v.Outcome == domain.Invalid:
			j.fate = max(j.fate, invalid)
			j.why = v.Trigger
		default:
			j.fate = judged
		}
	}
	return false, nil
}

// The patience with a trigger whose delivery is known by its first one already:
// when the peer repeats it, it would be taken for a duplicate.
const (
	patience   = 3 * time.Second
	firstPause = 20 * time.Millisecond
)

func (h *Hub) judgeOne(ctx context.Context, t domain.Trigger, patient bool) (domain.Verdict, error) {
	v, err := h.cfg.Ledger.Judge(ctx, t)
	for pause := firstPause; err != nil && patient && pause < patience; pause *= 2 {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return v, err
		case <-timer.C:
		}
		v, err = h.cfg.Ledger.Judge(ctx, t)
	}
	return v, err
}

// tally counts each delivery once.
func (e *endpoint) tally(req *connector.Request, list []connector.Delivery, jobs []*job) {
	fates := make([]fate, len(list))
	why := make([]string, len(list))
	for _, j := range jobs {
		fates[j.n] = max(fates[j.n], j.fate)
		if j.why != "" {
			why[j.n] = j.why
		}
	}
	for n := range list {
		d := &list[n]
		switch {
		case d.Unmapped != "":
			e.unmapped(req, d.Unmapped, d.Sample)
		case fates[n] == judged:
			e.count.facts.Add(1)
		case fates[n] == duplicate:
			e.count.duplicates.Add(1)
		case fates[n] == invalid:
			e.unmapped(req, "no account or trigger can be made of it", map[string]any{"trigger": why[n]})
		default:
			e.count.ignored.Add(1)
		}
	}
}

func (e *endpoint) unmapped(req *connector.Request, what string, kept map[string]any) {
	e.count.unmapped.Add(1)
	e.count.sample(Sample{At: time.Unix(0, req.At).UTC(), What: what, Kept: kept})
}
