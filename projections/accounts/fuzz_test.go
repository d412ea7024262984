package accounts_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/projectiontest"
)

// FuzzFilter asks for any filter from any place on: the pages joined are the
// accounts that a plain look at all of them finds, and the facets count them.
func FuzzFilter(f *testing.F) {
	h := projectiontest.Generate(11, projectiontest.Config{Talk: 30})
	v := newView(h)
	for _, i := range h.Items {
		v.Apply(i.At, i.Event)
	}
	for _, one := range allFilters() {
		key, value := "", ""
		for k, v := range one.Labels {
			key, value = k, v
		}
		source := "\x00"
		if one.Source != nil {
			source = *one.Source
		}
		f.Add(one.Prefix, one.Machine, one.State, one.Class, one.Condition, one.Desired, source, one.Attention, key, value, one.SinceFrom, one.SinceBefore, "", 7)
	}
	f.Add("+1555", "whatsapp@2", "RUNNING", "ready", "stuck", "run", "evo-1", "scan_qr", "pool", "eu", int64(1), int64(time.Hour), "+15550000020", -1)
	f.Fuzz(func(t *testing.T, prefix, machine, state, class, condition, desired, source, attention, key, value string, from, before int64, after string, limit int) {
		filter := accounts.Filter{
			Prefix: prefix, Machine: machine, State: state, Class: class, Condition: condition, Desired: desired, Attention: attention,
			SinceFrom: from, SinceBefore: before,
		}
		if source != "\x00" {
			filter.Source = &source
		}
		if key != "" {
			filter.Labels = map[string]string{key: value}
		}
		want := sorted(h, h.Folds, filter)
		if got := v.FacetsOf(filter).Accounts; got != len(want) {
			t.Fatalf("%+v: the facets count %d accounts, want %d", filter, got, len(want))
		}
		want = slices.DeleteFunc(want, func(a domain.AccountView) bool { return string(a.ID) <= after })
		var got []domain.AccountID
		for {
			page := v.List(filter, after, limit)
			for i := range page.Accounts {
				got = append(got, page.Accounts[i].ID)
			}
			if page.Next == "" {
				break
			}
			if strings.Compare(page.Next, after) <= 0 {
				t.Fatalf("%+v: behind %q comes the page behind %q", filter, after, page.Next)
			}
			after = page.Next
		}
		if !slices.EqualFunc(got, want, func(id domain.AccountID, a domain.AccountView) bool { return id == a.ID }) {
			t.Fatalf("%+v: found %v, want %d others", filter, got, len(want))
		}
	})
}
