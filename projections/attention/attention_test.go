package attention_test

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/attention"
	"github.com/musterhq/muster/projections/projectiontest"
)

func newView(h *projectiontest.History) *attention.View {
	return attention.New(h.Roster, h.Judge.Machines())
}

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, roster *projections.Roster) projections.View {
			return attention.New(roster, h.Judge.Machines())
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// items reads all pages.
func items(v *attention.View, f attention.Filter, limit int) []attention.Item {
	var all []attention.Item
	for after := ""; ; {
		page := v.Accounts(f, after, limit)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// plainIncident is an incident without what only the view knows.
type plainIncident struct {
	kind, source, reason string
	since, last          int64
	accounts             int
	sample               string
}

// incidents reads all pages.
func incidents(v *attention.View, f attention.Filter, limit int) []plainIncident {
	var all []plainIncident
	for after := ""; ; {
		page := v.Incidents(f, after, limit)
		for _, i := range page.Incidents {
			all = append(all, plainIncident{i.Kind, i.Source, i.Reason, i.Since, i.Last, i.Accounts, fmt.Sprint(i.Sample)})
		}
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// model follows a history the plain way: it asks the judge after every event.
type model struct {
	h     *projectiontest.History
	folds map[domain.AccountID]*domain.Account
	items map[domain.AccountID]map[string]attention.Item

	damaged map[domain.AccountID]bool
}

func newModel(h *projectiontest.History) *model {
	return &model{h: h, folds: map[domain.AccountID]*domain.Account{}, items: map[domain.AccountID]map[string]attention.Item{}, damaged: map[domain.AccountID]bool{}}
}

func (m *model) apply(e *domain.Event) {
	a := domain.Evolve(m.folds[e.Account], e)
	m.folds[e.Account] = a
	old := m.items[e.Account]
	now := map[string]attention.Item{}
	if !a.Forgotten {
		for _, kind := range m.h.Judge.Attention(a) {
			i := attention.Item{Account: a.ID, Kind: kind, Since: e.At, Reason: cmp.Or(e.Reason.Code, e.Trigger), Source: a.Source}
			m.condition(a, &i)
			if before, ok := old[kind]; ok {
				i.Since, i.Source = before.Since, before.Source
				if c := m.reasonOf(a, kind); c == "" {
					i.Reason = before.Reason
				}
			}
			now[kind] = i
		}
		if before, ok := old["damaged"]; ok {
			now["damaged"] = before
		} else if m.damaged[a.ID] { // it was forgotten, and has come back
			now["damaged"] = attention.Item{Account: a.ID, Kind: "damaged", Since: e.At, Reason: cmp.Or(e.Reason.Code, e.Trigger), Source: a.Source}
		}
	}
	m.items[e.Account] = now
}

// damage marks an account, since when the partition's last event was judged.
func (m *model) damage(id domain.AccountID, since int64) {
	if m.damaged[id] {
		return
	}
	m.damaged[id] = true
	a := m.folds[id]
	if a == nil {
		a = &domain.Account{ID: id}
	}
	if a.Forgotten {
		return
	}
	if m.items[id] == nil {
		m.items[id] = map[string]attention.Item{}
	}
	m.items[id]["damaged"] = attention.Item{Account: id, Kind: "damaged", Since: since, Reason: "damaged", Source: a.Source}
}

// condition takes over what the condition of that kind says, unless the state
// asks for the same.
func (m *model) condition(a *domain.Account, i *attention.Item) {
	bare := *a
	bare.Conditions = nil
	if slices.Contains(m.h.Judge.Attention(&bare), i.Kind) {
		return
	}
	for _, c := range a.Conditions {
		if c.Name == i.Kind {
			i.Since = c.Since
			if c.Name == "stuck" {
				i.Reason = a.State
			}
			if c.Reason != "" {
				i.Reason = c.Reason
			}
			return
		}
	}
}

func (m *model) reasonOf(a *domain.Account, kind string) string {
	i := attention.Item{Kind: kind}
	bare := *a
	bare.Conditions = nil
	if slices.Contains(m.h.Judge.Attention(&bare), kind) {
		return ""
	}
	for _, c := range a.Conditions {
		if c.Name == i.Kind {
			return c.Reason
		}
	}
	return ""
}

// list is the items that match, in order.
func (m *model) list(f attention.Filter) (list []attention.Item) {
	for id, kinds := range m.items {
		a := m.folds[id]
		for _, i := range kinds {
			i.State, i.Labels = a.State, a.Labels
			has := true
			for k, v := range f.Labels {
				has = has && a.Labels[k] == v
			}
			if has && (f.Kind == "" || f.Kind == i.Kind) && (f.Source == "" || f.Source == i.Source) {
				list = append(list, i)
			}
		}
	}
	slices.SortFunc(list, func(a, b attention.Item) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// incidents groups items the plain way.
func (m *model) incidents(f attention.Filter) (all []plainIncident) {
	groups := map[string][]attention.Item{}
	for _, i := range m.list(f) {
		key := fmt.Sprint(i.Kind, "|", i.Source, "|", i.Reason)
		groups[key] = append(groups[key], i)
	}
	for _, list := range groups {
		slices.SortFunc(list, func(a, b attention.Item) int { return cmp.Compare(a.Since, b.Since) })
		for from, i := 0, 1; i <= len(list); i++ {
			if i < len(list) && list[i].Since/int64(time.Minute) <= list[i-1].Since/int64(time.Minute)+1 {
				continue
			}
			one := list[from:i]
			var ids []domain.AccountID
			for _, x := range one {
				ids = append(ids, x.Account)
			}
			slices.Sort(ids)
			all = append(all, plainIncident{one[0].Kind, one[0].Source, one[0].Reason, one[0].Since, one[len(one)-1].Since, len(one), fmt.Sprint(ids[:min(3, len(ids))])})
			from = i
		}
	}
	slices.SortFunc(all, func(a, b plainIncident) int {
		return cmp.Or(cmp.Compare(b.since/int64(time.Minute), a.since/int64(time.Minute)), domain.AttentionRank(a.kind)-domain.AttentionRank(b.kind),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.source, b.source), cmp.Compare(a.reason, b.reason))
	})
	return all
}

func sameItems(got, want []attention.Item) bool {
	return slices.EqualFunc(got, want, func(a, b attention.Item) bool {
		if len(a.Labels) == 0 {
			a.Labels = nil
		}
		if len(b.Labels) == 0 {
			b.Labels = nil
		}
		return reflect.DeepEqual(a, b)
	})
}

// TestAttentionIsThatOfTheJudge: at any time the view shows what the judge names
// for the folds, since when and why, and groups it as a plain reading does.
func TestAttentionIsThatOfTheJudge(t *testing.T) {
	filters := []attention.Filter{
		{}, {Kind: "stuck"}, {Kind: "login_needed", Source: "waha-1"}, {Source: "evo-1"}, {Kind: "no such kind"},
		{Labels: map[string]string{"pool": "eu"}}, {Kind: "scan_qr", Labels: map[string]string{"tier": "gold"}}, {Source: "nobody"},
	}
	seen := map[string]int{}
	for seed := range uint64(5) {
		h := projectiontest.Generate(seed, projectiontest.Config{Events: 4000, Accounts: 25, Talk: 25})
		v, m := newView(h), newModel(h)
		for n, i := range h.Items {
			v.Apply(i.At, i.Event)
			m.apply(i.Event)
			if n%101 != 0 && n != len(h.Items)-1 {
				continue
			}
			for _, f := range filters {
				want := m.list(f)
				if got := items(v, f, 9); !sameItems(got, want) {
					t.Fatalf("seed %d, event %d, %+v: got\n%v\nwant\n%v", seed, n, f, got, want)
				}
				if got, want := incidents(v, f, 4), m.incidents(f); !slices.Equal(got, want) {
					t.Fatalf("seed %d, event %d, %+v: incidents\n%v\nwant\n%v", seed, n, f, got, want)
				}
			}
			size := map[string]int{}
			for _, x := range m.list(attention.Filter{}) {
				size[x.Kind]++
				seen[x.Kind]++
			}
			if got := v.Size(); !reflect.DeepEqual(got, size) {
				t.Fatalf("seed %d, event %d: sizes %v, want %v", seed, n, got, size)
			}
		}
	}
	for _, kind := range []string{"scan_qr", "login_needed", "stuck", "banned", "replaced", "nobody_answering", "user_action", "unexpected_stop"} {
		if seen[kind] == 0 {
			t.Errorf("no history needs %s: it proves nothing of that", kind)
		}
	}
}

// TestOneWorkerIsOneIncident: a thousand accounts lose their worker within some
// seconds, one other a while before.
func TestOneWorkerIsOneIncident(t *testing.T) {
	roster := projections.NewRoster(2)
	v := attention.New(roster, projectiontest.Registry())
	at := time.Date(2026, 3, 1, 10, 0, 55, 0, time.UTC)
	seqs := make([]uint64, 2)
	lose := func(i int, source string, when time.Time) {
		p := i % 2
		id := fmt.Sprintf("acct-%04d", i)
		number := roster.Ids(p).Add(id)
		for _, e := range []*domain.Event{
			{Version: 1, Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "connection_ready", Outcome: domain.Applied, To: "RUNNING", Source: source, At: 1},
			{Version: 2, Kind: domain.KindMark, Trigger: "vouch_lost", Outcome: domain.Noop, Source: "muster", At: when.UnixNano(),
				Set: []domain.Condition{{Name: "unvouched", Since: when.UnixNano()}}},
		} {
			seqs[p]++
			v.Apply(projections.Place{Partition: p, Seq: seqs[p], Account: number}, e)
		}
	}
	lose(0, "worker-1", at.Add(-10*time.Minute))
	lose(1, "worker-2", at)
	for i := 2; i < 1002; i++ {
		lose(i, "worker-1", at.Add(time.Duration(i)*20*time.Millisecond))
	}
	page := v.Incidents(attention.Filter{}, "", 10)
	if page.All != 3 || page.Items != 1002 {
		t.Fatalf("%d incidents of %d items, want 3 of 1002: %+v", page.All, page.Items, page.Incidents)
	}
	big := page.Incidents[0]
	if big.Source != "worker-1" || big.Kind != "unvouched" || big.Accounts != 1000 || big.Since != at.Add(40*time.Millisecond).UnixNano() ||
		big.Last != at.Add(20_020*time.Millisecond).UnixNano() || fmt.Sprint(big.Sample) != "[acct-0002 acct-0003 acct-0004]" {
		t.Errorf("the incident is %+v", big)
	}
}

func TestDamaged(t *testing.T) {
	h := projectiontest.Generate(4, projectiontest.Config{})
	v := newView(h)
	gone := map[domain.AccountID]bool{} // when it comes back, it is damaged from then on
	for _, i := range h.Items {
		gone[i.Event.Account] = gone[i.Event.Account] || i.Event.Effects&domain.EffectForget != 0
	}
	half := len(h.Items) / 2
	for gone[h.Items[half].Event.Account] {
		half++
	}
	for n, i := range h.Items {
		if n == half {
			v.Damaged(i.At)
		}
		v.Apply(i.At, i.Event)
	}
	id := h.Items[half].Event.Account
	list := items(v, attention.Filter{Kind: "damaged"}, 10)
	if len(list) != 1 || list[0].Account != id || list[0].Since != h.Items[half-1].Event.Recorded && list[0].Since > h.Items[half].Event.Recorded {
		t.Errorf("damaged: %+v, want %s", list, id)
	}
}

// BenchmarkIncidents groups 200 000 items of 40 sources, and reports what an item takes.
func BenchmarkIncidents(b *testing.B) {
	const n = 200_000
	roster := projections.NewRoster(4)
	for i := range n {
		roster.Ids(i % 4).Add(fmt.Sprintf("acct-%06d", i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := attention.New(roster, projectiontest.Registry())
	for i := range n {
		e := &domain.Event{
			Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "qr_received", Outcome: domain.Applied, To: "QR_REQUIRED",
			Source: fmt.Sprint("worker-", i%40), At: int64(i) * int64(10*time.Millisecond), Reason: domain.Reason{Code: strings.Repeat("x", i%3)},
		}
		v.Apply(projections.Place{Partition: i % 4, Seq: uint64(i/4 + 1), Account: uint32(i / 4)}, e)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		if page := v.Incidents(attention.Filter{}, "", 100); page.Items != n {
			b.Fatal(page.Items)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/account")
}
