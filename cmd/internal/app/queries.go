package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/machinefile"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/stats"
)

// queries is the table of what can be asked over NATS.
func (a *App) queries() []query.Query {
	return a.audited(append(slices.Concat(a.questions(), a.alertQueries(), a.fleetQueries(), a.projectionQueries(), a.tokenQueries()), []query.Query{
		{Name: api.GetQuery, Description: "One account: state, since, conditions, what it can do", Handle: query.Of(a.getAccount)},
		{Name: api.ListQuery, Description: "A page of accounts, by id, with filters", Handle: query.Of(a.listAccounts)},
		{Name: api.StatsQuery, Description: "The fleet in numbers: distribution, transitions, time to RUNNING", Handle: query.Of(a.stats)},
		{Name: api.DigestQuery, Description: "The digest of the whole fleet's state", Handle: query.Of(a.digest)},
		{Name: api.MachinesQuery, Description: "The transition tables by which triggers are judged", Handle: query.Of(a.machines)},
		{Name: api.WorkersQuery, Description: "The workers: who lives, and how many accounts each vouches for", Handle: query.Of(a.listWorkers)},
		{Name: api.ConnectorsQuery, Description: "The sources of webhooks and what they have sent", Handle: query.Of(a.listConnectors)},
		{Name: api.InboxQuery, Description: "What waits in the inbox, and a page of what could not be judged, the last one first", Handle: query.Of(a.listInbox)},
		{Name: api.InboxRetryQuery, Description: "Put parked messages into the inbox again: one, or all", Handle: query.Of(a.retryInbox)},
		{Name: api.InboxDropQuery, Description: "Forget parked messages: one, or all", Handle: query.Of(a.dropInbox)},
	}...))
}

// wait waits until the views have seen what the caller has.
func (a *App) wait(ctx context.Context, p api.AsOf) error {
	if err := a.views.runner.WaitAll(ctx, p); err != nil {
		return &bus.Error{Code: http.StatusServiceUnavailable, Title: "not caught up", Detail: err.Error(), Retryable: true}
	}
	return nil
}

func (a *App) getAccount(ctx context.Context, r api.GetRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	id, err := domain.ParseAccountID(r.Account)
	if err != nil {
		return nil, &bus.Error{Code: http.StatusBadRequest, Title: "invalid request", Detail: err.Error()}
	}
	acct, ok := a.views.accounts.Get(id)
	if !ok {
		return nil, a.noAccount(id)
	}
	a.views.talk.Fill(&acct.AccountView)
	return api.Account{AccountView: acct.AccountView, AsOf: a.views.runner.AsOf()}, nil
}

func (a *App) listAccounts(ctx context.Context, r api.ListRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	if r.Limit < 0 || r.Limit > api.MaxLimit {
		return nil, &bus.Error{Code: http.StatusBadRequest, Title: "invalid request", Detail: fmt.Sprintf("limit is 1 to %d, not %d", api.MaxLimit, r.Limit)}
	}
	if r.Limit == 0 {
		r.Limit = api.DefaultLimit
	}
	filter, err := filterOf(&r)
	if err != nil {
		return nil, err
	}
	asOf := a.views.runner.AsOf()
	page := api.Page{Accounts: make([]domain.AccountView, 0, min(r.Limit, api.DefaultLimit)), AsOf: asOf}
	page.Next = a.views.accounts.Each(filter, r.After, r.Limit, func(acct accounts.Account) {
		a.views.talk.Fill(&acct.AccountView)
		page.Accounts = append(page.Accounts, acct.AccountView)
	})
	return page, nil
}

func (a *App) stats(ctx context.Context, r api.StatsRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	v := a.views
	return stats.Of(v.runner.AsOf(), v.distribution, v.transitions, v.readytime, time.Now().UnixNano()), nil
}

// machines answers with all machines in numbers, or one with its file.
func (a *App) machines(_ context.Context, r api.MachinesRequest) (any, error) {
	var out api.Machines
	for _, m := range a.opts.Machines.List() {
		if r.Name != "" && m.Name() != r.Name {
			continue
		}
		d := m.Definition()
		row := api.Machine{
			Name: m.Name(), Initial: m.Initial(), States: len(d.States), Triggers: len(d.Triggers),
			Edges: len(m.Transitions()), Origin: a.opts.Origins[m.Name()],
		}
		if r.Name != "" {
			text, err := machinefile.Print(d)
			if err != nil {
				return nil, fmt.Errorf("print machine %s: %w", m.Name(), err)
			}
			row.Definition = string(text)
			row.Mermaid, row.DOT = m.Mermaid(), m.DOT()
		}
		out.Machines = append(out.Machines, row)
	}
	if len(out.Machines) == 0 {
		return nil, &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: fmt.Sprintf("there is no machine %q", r.Name)}
	}
	return out, nil
}

// digest is over what the writers hold, which is never behind an answer that
// was given.
func (a *App) digest(ctx context.Context, r api.DigestRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	digest, n, asOf, err := a.set.Digest(ctx)
	if err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	return api.Digest{Digest: digest, Accounts: n, AsOf: asOf}, nil
}
