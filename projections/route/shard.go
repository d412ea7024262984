package route

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/pages"
	"github.com/musterhq/muster/projections/internal/states"
)

// row is what the view knows of one account.
type row struct {
	since  int64
	used   int64 // 0: never
	labels uint32
	state  uint16 // states.None: no event yet
	group  uint8  // nowhere: not indexed
	gone   bool   // forgotten
}

func (r *row) last() int64 { return cmp.Or(r.used, r.since) }

// entry is one account's place in the order of one group, with one label or
// with whatever labels it has.
type entry struct {
	place   uint32 // number of the label (0 = all accounts), then of the group
	account uint32
	last    int64
}

func before(a, b entry) bool {
	if a.place != b.place {
		return a.place < b.place
	}
	if a.last != b.last {
		return a.last < b.last
	}
	return a.account < b.account
}

const (
	maxPairs = 1<<(32-groupBits) - 1
	anyPair  = 0 // the number of no label: all accounts. Labels beyond maxPairs have it, too
)

// shard is one partition's part of the view.
type shard struct {
	mu       sync.RWMutex
	ids      *projections.Ids
	machines *machine.Registry
	seq      uint64
	states   *states.Table
	labels   *intern.Labels
	rows     pages.List[row]
	blocks   map[uint32][]block // by account; of those that have any, sorted
	names    *intern.Table      // of blocks: conditions and scopes

	groups  []group // by number; nowhere is the first
	numbers map[string]uint8
	plain   []uint8              // by state: the group of accounts without blocks
	pairs   *intern.Table        // labels as key=value; made anew with the index
	counts  []int                // accounts in the index, by label
	index   *btree.BTreeG[entry] // nil until somebody asks, see settle
}

func newShard(ids *projections.Ids, machines *machine.Registry) *shard {
	return &shard{
		ids: ids, machines: machines, states: states.New(machines), labels: intern.NewLabels(), blocks: map[uint32][]block{}, names: intern.New(),
		groups: make([]group, 1), numbers: map[string]uint8{}, pairs: intern.New(),
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	now := *r
	s.fold(at.Account, &now, e)
	if now.group == r.group && now.last() == r.last() && now.labels == r.labels {
		*r = now
		return
	}
	s.enter(at.Account, r, -1)
	*r = now
	s.enter(at.Account, r, +1)
}

// fold makes r what e makes of it.
func (s *shard) fold(number uint32, r *row, e *domain.Event) {
	first := r.state == states.None
	if e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark) || first {
		r.since = e.At
	}
	state := s.states.Next(r.state, e)
	if labels, given := states.Labels(e, first); given {
		r.labels = s.labels.ID(labels)
	}
	if e.Kind == domain.KindMessage && (e.Outcome == domain.Applied || e.Outcome == domain.Noop) &&
		(e.Trigger == "message_pending" || e.Trigger == "message_sent") {
		r.used = max(r.used, e.At)
	}
	gone := e.Effects&domain.EffectForget != 0 || r.gone && e.Effects&domain.EffectRevive == 0
	changed := s.block(number, e)
	if changed || state != r.state || gone != r.gone {
		r.state, r.gone = state, gone
		r.group = s.groupOf(number, r)
	}
}

func (s *shard) groupOf(number uint32, r *row) uint8 {
	if r.gone {
		return nowhere
	}
	if len(s.blocks) > 0 {
		if blocks := s.blocks[number]; len(blocks) > 0 {
			return s.number(s.groupIn(r.state, blocks))
		}
	}
	for len(s.plain) <= int(r.state) {
		s.plain = append(s.plain, s.number(s.groupIn(uint16(len(s.plain)), nil)))
	}
	return s.plain[r.state]
}

// groupIn is the group of an account in a state with these conditions.
func (s *shard) groupIn(state uint16, blocks []block) group {
	st := s.states.At(state)
	m, _ := s.machines.Get(st.Machine)
	return groupOf(m, st.Name, blocks)
}

// block keeps the conditions that forbid to send, and says whether they changed.
func (s *shard) block(number uint32, e *domain.Event) (changed bool) {
	list := s.blocks[number]
	at := func(name, scope string) int {
		return slices.IndexFunc(list, func(b block) bool { return b.name == name && b.scope == scope })
	}
	for i := range e.Ended {
		if k := at(e.Ended[i].Name, e.Ended[i].Scope); k >= 0 {
			list, changed = slices.Delete(list, k, k+1), true
		}
	}
	for i := range e.Set {
		c := &e.Set[i]
		if meaning, _ := machine.ConditionNamed(c.Name); meaning.NoSend && at(c.Name, c.Scope) < 0 {
			list, changed = append(list, block{s.name(c.Name), s.name(c.Scope)}), true
		}
	}
	if !changed {
		return false
	}
	if len(list) == 0 {
		delete(s.blocks, number)
		return true
	}
	slices.SortFunc(list, func(a, b block) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.scope, b.scope)) })
	s.blocks[number] = list
	return true
}

func (s *shard) name(text string) string { return s.names.Name(s.names.ID(text)) }

// enter puts an account into the index (d = +1), or takes it out (d = -1).
func (s *shard) enter(number uint32, r *row, d int) {
	if r.group == nowhere {
		return
	}
	s.groups[r.group].accounts += d
	if s.index == nil {
		return
	}
	s.places(number, r, d, func(e entry) {
		if d > 0 {
			s.index.Set(e)
		} else {
			s.index.Delete(e)
		}
	})
}

// places calls with each place that an account has in the index, and counts it
// there.
func (s *shard) places(number uint32, r *row, d int, with func(entry)) {
	at := func(pair uint32) {
		for len(s.counts) <= int(pair) {
			s.counts = append(s.counts, 0)
		}
		s.counts[pair] += d
		with(entry{place: pair<<groupBits | uint32(r.group), account: number, last: r.last()})
	}
	at(anyPair)
	for _, text := range s.labels.Set(r.labels).Pairs {
		if pair := s.pairs.IDWithin(text, maxPairs, ""); pair != anyPair {
			at(pair)
		}
	}
}

// settle builds the index, if it is not there yet; from then on it is kept.
func (s *shard) settle() {
	s.mu.RLock()
	settled := s.index != nil
	s.mu.RUnlock()
	if settled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index != nil {
		return
	}
	var all []entry
	for i := range uint32(s.rows.Len()) {
		if r := s.rows.At(i); r.group != nowhere {
			s.places(i, r, +1, func(e entry) { all = append(all, e) })
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.last, b.last), cmp.Compare(a.account, b.account))
	})
	s.index = btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
	for _, e := range all {
		s.index.Load(e)
	}
}
