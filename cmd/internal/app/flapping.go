package app

import (
	"slices"
	"time"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/accounts"
)

// mostLost is how many accounts that were lost again and again one answer names, and
// lostOften how often that is at least.
const (
	mostLost  = 100
	lostOften = 2
)

// conditionFlapping is the condition's name.
const conditionFlapping = "flapping"

// flapping says which accounts come and go: those that have the condition, and how
// often the worst of all were lost in a window.
func (a *App) flapping(now int64, window time.Duration) *api.Flapping {
	facets := a.views.accounts.FacetsOf(accounts.Filter{Condition: conditionFlapping})
	f := &api.Flapping{Accounts: facets.Accounts, Machines: facets.Machines, Sources: facets.Sources, Window: window.Seconds(), Lost: []api.Lost{}}
	losses, whole := a.views.transitions.Losses(now, window, lostOften, mostLost)
	f.Whole = whole
	for _, l := range losses {
		ids := a.views.roster.Ids(l.Partition)
		ids.RLock()
		id := ids.ID(l.Account)
		ids.RUnlock()
		acct, ok := a.views.accounts.Get(id)
		if !ok {
			continue // it was forgotten
		}
		f.Lost = append(f.Lost, api.Lost{
			Account: string(id), Machine: acct.Machine, State: acct.State, Source: acct.Source, Times: l.Times, Last: domain.FormatTime(l.Last),
			Flapping: slices.ContainsFunc(acct.Conditions, func(c domain.ConditionView) bool { return c.Name == conditionFlapping }),
		})
	}
	return f
}
