package app

import (
	"context"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/attention"
)

// listAttention answers who needs a human.
func (a *App) listAttention(ctx context.Context, r api.AttentionRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	_, after, limit, err := pageOf("", r.After, r.Limit)
	if err != nil {
		return nil, err
	}
	f := attention.Filter{Kind: r.Kind, Source: r.Source, Labels: r.Labels}
	answer := api.Attention{AsOf: a.views.runner.AsOf()}
	if r.Accounts {
		page := a.views.attention.Accounts(f, after, limit)
		answer.Next = cursor(page.Next)
		for i := range page.Items {
			answer.Accounts = append(answer.Accounts, needsOf(&page.Items[i]))
		}
		return answer, nil
	}
	page := a.views.attention.Incidents(f, after, limit)
	answer.Next = cursor(page.Next)
	answer.Total = &api.AttentionTotal{Incidents: page.All, Accounts: page.Items}
	for i := range page.Incidents {
		answer.Incidents = append(answer.Incidents, incidentOf(&page.Incidents[i]))
	}
	return answer, nil
}

func needsOf(i *attention.Item) api.NeedsAttention {
	k := domain.AttentionNamed(i.Kind)
	return api.NeedsAttention{
		Account: string(i.Account), Kind: i.Kind, State: i.State, Since: timeOrNone(i.Since), Source: i.Source, Reason: i.Reason,
		About: k.About, Do: k.Do, Labels: orEmpty(i.Labels),
	}
}

func incidentOf(i *attention.Incident) api.Incident {
	k := domain.AttentionNamed(i.Kind)
	answer := api.Incident{
		Kind: i.Kind, Accounts: i.Accounts, Source: i.Source, Reason: i.Reason, Since: timeOrNone(i.Since), Last: timeOrNone(i.Last),
		About: k.About, Do: k.Do, Sample: make([]string, 0, len(i.Sample)),
	}
	for _, id := range i.Sample {
		answer.Sample = append(answer.Sample, string(id))
	}
	return answer
}
