package accounts_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/projectiontest"
)

// answers asks the view everything: each account by itself, and for every filter
// all pages joined and the counts of all facets.
func answers(h *projectiontest.History, v projections.View) any {
	a := v.(*accounts.View)
	told := map[string]any{"accounts": a.Len(), "facets": a.Facets()}
	for id := range h.Folds {
		if one, ok := a.Get(id); ok {
			told["account "+string(id)] = one
		}
	}
	for i, f := range allFilters() {
		page := []int{1, 7, 1000}[i%3]
		told[fmt.Sprint("filter ", i)] = []any{ids(all(a, f, page)), a.FacetsOf(f)}
	}
	return told
}

// want works the same out from the folds.
func want(h *projectiontest.History) any {
	damage := h.Damage()
	damaged := func(list []domain.AccountView) []accounts.Account {
		shown := []accounts.Account{}
		for _, one := range list {
			_, is := damage[one.ID]
			if is {
				one.Attention = append(slices.Clone(one.Attention), "damaged")
			}
			shown = append(shown, accounts.Account{AccountView: one, Damaged: is})
		}
		return shown
	}
	everybody := damaged(sorted(h, h.Folds, accounts.Filter{}))
	told := map[string]any{"accounts": len(everybody), "facets": facetsOf(h, everybody)}
	for _, one := range everybody {
		told["account "+string(one.ID)] = one
	}
	for i, f := range allFilters() {
		rest := f
		if f.Attention == "damaged" {
			rest.Attention = "" // which only the history tells, not the fold
		}
		found := slices.DeleteFunc(damaged(sorted(h, h.Folds, rest)), func(a accounts.Account) bool {
			return f.Attention == "damaged" && !a.Damaged
		})
		told[fmt.Sprint("filter ", i)] = []any{ids(found), facetsOf(h, found)}
	}
	return told
}

// allFilters are those that users give, and each alone.
func allFilters() []accounts.Filter {
	list := append(filters(), accounts.Filter{Attention: "damaged"}, accounts.Filter{Attention: "damaged", Labels: map[string]string{"pool": "eu"}})
	for _, name := range []string{
		"rate_limited", "restricted", "unresponsive", "replaced", "refused", "banned", "flapping", "gave_up", "unvouched", "unverified",
		"unexpected_activity", "identity_unverified", "send_stalled", "user_action", "ticket_expiring", "login_needed", "full_resync",
	} {
		list = append(list, accounts.Filter{Condition: name}, accounts.Filter{Attention: name, Class: "down"})
	}
	return list
}

// ids says which accounts were found, in their order; what each is like is asked of
// each alone.
func ids(found []accounts.Account) string {
	var b strings.Builder
	for i := range found {
		b.WriteString(string(found[i].ID) + " ")
	}
	return b.String()
}

// facetsOf counts accounts the plain way.
func facetsOf(h *projectiontest.History, list []accounts.Account) accounts.Facets {
	n := accounts.Facets{
		Machines: map[string]int{}, States: map[string]int{}, Classes: map[string]int{},
		Labels: map[string]map[string]int{}, Conditions: map[string]int{}, Sources: map[string]int{},
		Desired: map[string]int{}, Attention: map[string]int{},
	}
	for _, a := range list {
		n.Accounts++
		n.Machines[a.Machine]++
		n.States[a.State]++
		n.Classes[a.Class]++
		n.Desired[a.Desired]++
		n.Sources[h.Folds[a.ID].Source]++
		if a.Damaged {
			n.Damaged++
			n.Attention["damaged"]++
		}
		for _, kind := range h.Judge.Attention(h.Folds[a.ID]) { // of its conversations, too
			n.Attention[kind]++
		}
		for k, value := range a.Labels {
			if n.Labels[k] == nil {
				n.Labels[k] = map[string]int{}
			}
			n.Labels[k][value]++
		}
		names := map[string]bool{}
		for _, c := range a.Conditions {
			names[c.Name] = true
		}
		for name := range names {
			n.Conditions[name]++
		}
	}
	return n
}
