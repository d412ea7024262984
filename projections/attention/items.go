package attention

import (
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// need is a kind of attention that an account asks for.
type need struct {
	kind   string
	since  int64
	reason string
	firm   bool // since and reason are the condition's; else they are those of the event that began it
}

// needs lists what an account asks for, by the rules of domain.Judge.Attention.
// at and why are those of the event that may have brought something new. The
// list is used again.
func (s *shard) needs(number uint32, r *row, at int64, why string) []need {
	list := s.needed[:0]
	if r.flags&flagGone != 0 {
		return list
	}
	add := func(n need) {
		if n.kind != "" && !slices.ContainsFunc(list, func(o need) bool { return o.kind == n.kind }) {
			list = append(list, n)
		}
	}
	wanted := r.flags&flagStop == 0
	if a := s.asksOf(r.state); wanted || !a.ifWanted {
		add(need{kind: a.kind, since: at, reason: why})
	}
	if wanted && r.flags&flagAsksLogin != 0 {
		add(need{kind: machine.LoginNeeded, since: at, reason: why})
	}
	if r.flags&flagMore != 0 {
		for _, c := range s.more[number].conditions {
			reason := c.reason
			switch {
			case reason == "" && c.name == machine.Stuck:
				reason = s.states.At(r.state).Name
			case reason == "":
				reason = why
			}
			add(need{kind: c.name, since: c.since, reason: reason, firm: c.reason != ""})
		}
		if s.more[number].talks.Unanswered() {
			add(need{kind: domain.AttentionNobodyAnswering, since: at, reason: why})
		}
	}
	if r.flags&flagDamaged != 0 {
		add(need{kind: domain.AttentionDamaged, since: at, reason: why})
	}
	slices.SortFunc(list, func(a, b need) int { return strings.Compare(a.kind, b.kind) })
	s.needed = list
	return list
}

// refresh makes the account's items what it needs now. An item that goes on
// keeps its beginning; a condition's reason may change meanwhile.
func (s *shard) refresh(number uint32, r *row, at int64, why string) {
	list := s.needs(number, r, at, why)
	if r.flags&flagMore == 0 {
		if len(list) == 0 {
			return
		}
		s.extra(number, r)
	}
	m := s.more[number]
	old := m.items
	if s.order != nil {
		for _, i := range old {
			s.leave(number, &i)
		}
	}
	m.items = s.itemsOf(list, old, r.source)
	if s.order != nil {
		s.index(number, m.items, len(old) > 0)
	}
	if len(m.items) == 0 && len(m.conditions) == 0 && m.talks.Empty() {
		delete(s.more, number)
		r.flags &^= flagMore
	}
}

// itemsOf makes items of needs; nil when there are none.
func (s *shard) itemsOf(list []need, old []item, source uint32) []item {
	if len(list) == 0 {
		return nil
	}
	items := make([]item, 0, len(list))
	for _, n := range list {
		now := item{since: n.since, kind: s.kinds.ID(n.kind), reason: s.reasons.IDWithin(n.reason, MaxReasons, Other), source: source}
		if k := slices.IndexFunc(old, func(o item) bool { return o.kind == now.kind }); k >= 0 {
			now.since, now.source = old[k].since, old[k].source
			if !n.firm {
				now.reason = old[k].reason
			}
		}
		items = append(items, now)
	}
	return items
}

// index enters an account's items; had says that it had some before.
func (s *shard) index(number uint32, items []item, had bool) {
	for i := range items {
		s.join(number, &items[i])
	}
	switch has := len(items) > 0; {
	case has && !had:
		s.order.Set(number)
	case had && !has:
		s.order.Delete(number)
	}
}

func (i *item) bucket() bucketKey {
	return bucketKey{kind: i.kind, reason: i.reason, source: i.source, minute: minuteOf(i.since)}
}

// minuteOf is the minute since 1970, rounded towards the past.
func minuteOf(at int64) int32 {
	const minute = 60e9
	m := at / minute
	if at%minute < 0 {
		m--
	}
	return int32(max(-1<<31, min(m, 1<<31-1)))
}

// join puts an item into its bucket.
func (s *shard) join(number uint32, i *item) {
	key := i.bucket()
	i.place = uint32(len(s.buckets[key]))
	s.buckets[key] = append(s.buckets[key], number)
	if e := s.edges[key]; e != nil {
		e.add(number, i.since)
	}
}

// leave takes an item out of its bucket; the last one there takes its place.
func (s *shard) leave(number uint32, i *item) {
	key := i.bucket()
	list := s.buckets[key]
	last := len(list) - 1
	if moved := list[last]; moved != number {
		list[i.place] = moved
		s.itemOf(moved, key.kind).place = i.place
	}
	if e := s.edges[key]; e != nil {
		e.remove(number, i.since)
		if last <= manyItems/2 {
			delete(s.edges, key)
		}
	}
	if last == 0 {
		delete(s.buckets, key)
		return
	}
	s.buckets[key] = list[:last]
}

// itemOf returns an account's item of a kind, which it must have.
func (s *shard) itemOf(number, kind uint32) *item {
	items := s.more[number].items
	return &items[slices.IndexFunc(items, func(i item) bool { return i.kind == kind })]
}

// shownItem is an item as it is shown; the caller holds both locks.
func (s *shard) shownItem(number uint32, i *item) Item {
	r := s.rows.At(number)
	return Item{
		Account: s.ids.ID(number), Kind: s.kinds.Name(i.kind), Since: i.since, Reason: s.reasons.Name(i.reason), Source: s.sources.Name(i.source),
		State: s.states.At(r.state).Name, Labels: s.labels.Set(r.labels).Map,
	}
}

// matcher is a filter in the numbers of one shard.
type matcher struct {
	s            *shard
	f            *Filter
	kind, source uint32
	none         bool // nothing can match
}

func (s *shard) matcher(f *Filter) matcher {
	m := matcher{s: s, f: f}
	var known bool
	if f.Kind != "" {
		m.kind, known = s.kinds.Find(f.Kind)
		m.none = !known
	}
	if f.Source != "" {
		m.source, known = s.sources.Find(f.Source)
		m.none = m.none || !known
	}
	return m
}

// item says whether an item matches, but for the account's labels.
func (m *matcher) item(kind, source uint32) bool {
	return !m.none && (m.f.Kind == "" || m.kind == kind) && (m.f.Source == "" || m.source == source)
}

// account says whether an account's labels match.
func (m *matcher) account(number uint32) bool {
	if len(m.f.Labels) == 0 {
		return true
	}
	has := m.s.labels.Set(m.s.rows.At(number).labels).Map
	for k, v := range m.f.Labels {
		if got, ok := has[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (s *shard) addSize(n map[string]int) {
	s.settle()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, list := range s.buckets {
		n[s.kinds.Name(key.kind)] += len(list)
	}
}
