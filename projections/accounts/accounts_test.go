package accounts_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/projectiontest"
)

func newView(h *projectiontest.History) *accounts.View { return accounts.New(h.Roster, h.Judge) }

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, roster *projections.Roster) projections.View {
			return accounts.New(roster, h.Judge)
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// all reads all pages.
func all(v *accounts.View, f accounts.Filter, limit int) []accounts.Account {
	var list []accounts.Account
	for after := ""; ; {
		page := v.List(f, after, limit)
		list = append(list, page.Accounts...)
		if page.Next == "" {
			return list
		}
		after = page.Next
	}
}

// sorted returns the accounts of a fold that a filter wants, the plain way.
func sorted(h *projectiontest.History, folds map[domain.AccountID]*domain.Account, f accounts.Filter) []domain.AccountView {
	var list []domain.AccountView
	for _, a := range folds {
		v := describe(h, a)
		keep := !a.Forgotten && strings.HasPrefix(string(v.ID), f.Prefix) &&
			(f.Machine == "" || v.Machine == f.Machine) && (f.State == "" || v.State == f.State) &&
			(f.Class == "" || v.Class == f.Class) && (f.Desired == "" || v.Desired == f.Desired)
		for k, want := range f.Labels {
			got, ok := v.Labels[k]
			keep = keep && ok && got == want
		}
		if f.Condition != "" {
			keep = keep && slices.ContainsFunc(v.Conditions, func(c domain.ConditionView) bool { return c.Name == f.Condition })
		}
		if f.Attention != "" {
			keep = keep && slices.Contains(h.Judge.Attention(a), f.Attention)
		}
		keep = keep && (f.Source == nil || a.Source == *f.Source) &&
			(f.SinceFrom == 0 || a.Since >= f.SinceFrom) && (f.SinceBefore == 0 || a.Since < f.SinceBefore)
		if keep {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b domain.AccountView) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}

// describe is what users see of an account without its messages and
// conversations.
func describe(h *projectiontest.History, a *domain.Account) domain.AccountView {
	bare := a.Clone()
	bare.Talk = nil
	return h.Judge.Describe(bare)
}

func views(list []accounts.Account) []domain.AccountView {
	var out []domain.AccountView
	for _, a := range list {
		out = append(out, a.AccountView)
	}
	return out
}

// TestEveryAccountIsTheFold: what the view has dropped makes no difference to
// what it shows, after every event.
func TestEveryAccountIsTheFold(t *testing.T) {
	for seed := range uint64(6) {
		h := projectiontest.Generate(seed, projectiontest.Config{})
		v := newView(h)
		folds := map[domain.AccountID]*domain.Account{}
		for i, item := range h.Items {
			v.Apply(item.At, item.Event)
			id := item.Event.Account
			folds[id] = domain.Evolve(folds[id], item.Event)
			got, ok := v.Get(id)
			if ok == folds[id].Forgotten {
				t.Fatalf("seed %d, event %d: shown %v, forgotten %v", seed, i, ok, folds[id].Forgotten)
			}
			if want := describe(h, folds[id]); ok && !reflect.DeepEqual(got.AccountView, want) {
				t.Fatalf("seed %d, event %d (%s): got\n%+v\nwant\n%+v", seed, i, item.Event.Trigger, got.AccountView, want)
			}
		}
		if _, ok := v.Get("nobody"); ok {
			t.Error("an account that does not exist is shown")
		}
	}
}

// TestFieldsOfTheFold: every field of the fold is either kept or known to make
// no difference. A new field must be entered here, and kept if it is shown.
func TestFieldsOfTheFold(t *testing.T) {
	kept := []string{"ID", "Machine", "Mode", "Desired", "State", "Since", "Version", "Labels", "Conditions", "Source", "Forgotten", "AsksLogin"}
	dropped := []string{
		"Epoch", "Seq", "Closed", "Sources", "Recent", // only the judge asks for them
		"UpSince", "Trouble", "Extra", "Ran", // deadlines and tickets
		"Talk", // kept by the view talk
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[domain.Account]()) {
		if !slices.Contains(kept, f.Name) && !slices.Contains(dropped, f.Name) {
			t.Errorf("domain.Account has a field %s that the view neither keeps nor drops knowingly", f.Name)
		}
	}
}

// filters are such as users give.
func filters() []accounts.Filter {
	nobody, evo, stranger := "", "evo-1", "nobody-1"
	quarter := projectiontest.Epoch + int64(2*time.Hour)
	return []accounts.Filter{
		{},
		{Source: &nobody},
		{Source: &evo},
		{Source: &evo, Class: "down", Labels: map[string]string{"pool": "eu"}},
		{Source: &stranger},
		{Attention: "scan_qr"},
		{Attention: "nobody_answering"},
		{Attention: "login_needed", Machine: "whatsapp@2"},
		{Attention: "flapping"},
		{Attention: "no such kind"},
		{SinceFrom: quarter},
		{SinceBefore: quarter},
		{SinceFrom: quarter, SinceBefore: quarter + int64(time.Hour)},
		{SinceBefore: quarter, State: "RUNNING", Prefix: "+1"},
		{Prefix: "+15550000"},
		{Prefix: "+155500000"},
		{Prefix: "+1555000001"},
		{Prefix: "+15550000011"}, // a whole id
		{Prefix: "nothing"},
		{Machine: "whatsapp@2"},
		{State: "RUNNING"},
		{State: "NOWHERE"},
		{Class: "human"},
		{Class: "ready", Machine: "lamp@1"},
		{Desired: "stop"},
		{Labels: map[string]string{"pool": "eu"}},
		{Labels: map[string]string{"pool": "eu", "tier": "gold"}},
		{Labels: map[string]string{"pool": "mars"}},
		{Labels: map[string]string{"pool": "us"}, Class: "down", Prefix: "+1"},
		{Condition: "unexpected_stop"},
		{Condition: "stuck", Machine: "whatsapp@1"},
		{Condition: "no such condition"},
	}
}

func TestList(t *testing.T) {
	for seed := range uint64(2) {
		for _, size := range []projectiontest.Config{{Talk: 40}, {Accounts: 3000, Events: 6000, Partitions: 2}} {
			h := projectiontest.Generate(seed, size)
			v := newView(h)
			for _, item := range h.Items {
				v.Apply(item.At, item.Event)
			}
			for _, f := range filters() {
				want := sorted(h, h.Folds, f)
				for _, limit := range []int{1, 7, 1000} {
					if limit*100 < len(want) {
						continue
					}
					if got := views(all(v, f, limit)); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, %+v, pages of %d: %d accounts, want %d", seed, f, limit, len(got), len(want))
					}
				}
			}
		}
	}
}

func TestPagesOfAFilter(t *testing.T) {
	h := projectiontest.Generate(1, projectiontest.Config{})
	v := newView(h)
	for _, item := range h.Items {
		v.Apply(item.At, item.Event)
	}
	ids := sorted(h, h.Folds, accounts.Filter{})
	page := v.List(accounts.Filter{}, "", 5)
	if len(page.Accounts) != 5 || page.Next != string(ids[4].ID) {
		t.Errorf("the first page has %d accounts, the next begins behind %q", len(page.Accounts), page.Next)
	}
	last := string(ids[len(ids)-1].ID)
	if page := v.List(accounts.Filter{}, last, 5); len(page.Accounts) != 0 || page.Next != "" {
		t.Errorf("behind the last account: %d accounts, next %q", len(page.Accounts), page.Next)
	}
	if page := v.List(accounts.Filter{}, "", 0); len(page.Accounts) != 1 {
		t.Errorf("limit 0 gives %d accounts, want 1", len(page.Accounts))
	}
	if page := v.List(accounts.Filter{}, "", 1<<40); page.Next != "" || len(page.Accounts) != len(ids) {
		t.Errorf("a limit without bound gives %d accounts, next %q", len(page.Accounts), page.Next)
	}
}

// TestFacets: the counts are those of a plain count over the accounts that the
// filter wants, for all filters.
func TestFacets(t *testing.T) {
	for seed := range uint64(3) {
		h := projectiontest.Generate(seed, projectiontest.Config{Talk: 20 * int(seed)})
		v := newView(h)
		for _, item := range h.Items {
			v.Apply(item.At, item.Event)
		}
		for _, f := range filters() {
			if got, want := v.FacetsOf(f), counted(h, f); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d, %+v:\ngot  %+v\nwant %+v", seed, f, got, want)
			}
		}
		if got, want := v.Facets(), counted(h, accounts.Filter{}); !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: got %+v, want %+v", seed, got, want)
		} else if len(want.Conditions) < 3 || len(want.Attention) < 3 || len(want.Sources) < 3 {
			t.Errorf("seed %d: too little to prove anything: %+v", seed, want)
		}
	}
}

// TestFacetsAtAnyTime: the counts that are kept as events come do not drift from
// a plain count over the folds, also when they go on from a saved view.
func TestFacetsAtAnyTime(t *testing.T) {
	h := projectiontest.Generate(11, projectiontest.Config{Talk: 20})
	folds := map[domain.AccountID]*domain.Account{}
	now := &projectiontest.History{Partitions: h.Partitions, Roster: h.Roster, Judge: h.Judge, Folds: folds}
	v := newView(h)
	for i, item := range h.Items {
		v.Apply(item.At, item.Event)
		folds[item.Event.Account] = domain.Evolve(folds[item.Event.Account], item.Event)
		if i%199 != 0 && i != len(h.Items)-1 {
			continue
		}
		for _, f := range filters() {
			if got, want := v.FacetsOf(f), counted(now, f); !reflect.DeepEqual(got, want) {
				t.Fatalf("event %d, %+v:\ngot  %+v\nwant %+v", i, f, got, want)
			}
		}
		loaded := newView(h)
		for p := range h.Partitions {
			var saved bytes.Buffer
			if err := v.Save(p, &saved); err != nil {
				t.Fatal(err)
			}
			if err := loaded.Load(p, &saved); err != nil {
				t.Fatal(err)
			}
		}
		v = loaded
	}
}

// counted counts accounts the plain way.
func counted(h *projectiontest.History, f accounts.Filter) accounts.Facets {
	n := accounts.Facets{
		Machines: map[string]int{}, States: map[string]int{}, Classes: map[string]int{},
		Labels: map[string]map[string]int{}, Conditions: map[string]int{}, Sources: map[string]int{},
		Desired: map[string]int{}, Attention: map[string]int{},
	}
	for _, a := range sorted(h, h.Folds, f) {
		n.Accounts++
		n.Machines[a.Machine]++
		n.States[a.State]++
		n.Classes[a.Class]++
		n.Desired[a.Desired]++
		n.Sources[h.Folds[a.ID].Source]++
		for _, kind := range h.Judge.Attention(h.Folds[a.ID]) {
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

func TestDamagedAccounts(t *testing.T) {
	h := projectiontest.Generate(2, projectiontest.Config{})
	v := newView(h)
	half := len(h.Items) / 2
	for h.Folds[h.Items[half].Event.Account].Forgotten { // it would not be shown
		half++
	}
	damaged := h.Items[half]
	for i, item := range h.Items {
		if i == half {
			v.Damaged(item.At)
		}
		v.Apply(item.At, item.Event)
	}
	for _, a := range all(v, accounts.Filter{}, 100) {
		is := a.ID == damaged.Event.Account
		if a.Damaged != is || slices.Contains(a.Attention, "damaged") != is {
			t.Errorf("%s: damaged %v, attention %v, want %v", a.ID, a.Damaged, a.Attention, is)
		}
	}
	if n := v.Facets(); n.Damaged != 1 || n.Attention["damaged"] != 1 {
		t.Errorf("%d damaged accounts, %d that ask to be looked at, want 1 of each", n.Damaged, n.Attention["damaged"])
	}
	found := v.List(accounts.Filter{Attention: "damaged"}, "", 10).Accounts
	if len(found) != 1 || found[0].ID != damaged.Event.Account {
		t.Errorf("found as damaged: %v, want %s", found, damaged.Event.Account)
	}
}

// TestShortPages: when many accounts have to be looked at for few, pages come
// short, and following them finds all.
func TestShortPages(t *testing.T) {
	const n = 50_000
	h := &projectiontest.History{Partitions: 1, Roster: projections.NewRoster(1), Judge: domain.NewJudge(projectiontest.Registry())}
	v := newView(h)
	var want []domain.AccountID
	for i := range n {
		id := domain.AccountID(fmt.Sprintf("acct-%06d", i))
		e := &domain.Event{
			Version: 1, Account: id, Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "start",
			Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", Effects: domain.EffectWantRun,
		}
		if i%(n-1) == 0 || i == n/2 {
			e.Effects = domain.EffectWantStop
			want = append(want, id)
		}
		v.Apply(projections.Place{Seq: uint64(i + 1), Account: h.Roster.Ids(0).Add(string(id))}, e)
	}
	var got []domain.AccountID
	short := 0
	for after := ""; ; {
		page := v.List(accounts.Filter{Desired: "stop"}, after, 100)
		for _, a := range page.Accounts {
			got = append(got, a.ID)
		}
		if page.Next == "" {
			break
		}
		if page.Next <= after {
			t.Fatalf("the page behind %q is followed by the one behind %q", after, page.Next)
		}
		after = page.Next
		short++
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if short != n/accounts.ScanLimit {
		t.Errorf("%d short pages, want %d: one for each %d accounts looked at", short, n/accounts.ScanLimit, accounts.ScanLimit)
	}
}
