package attention

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
	"github.com/musterhq/muster/projections/internal/turns"
)

// row is what the view knows of every account.
type row struct {
	labels uint32
	source uint32
	state  uint16 // states.None: no event yet
	flags  uint8
}

const (
	flagStop      = 1 << iota // desired is stop
	flagAsksLogin             // the way into its state asks for a login
	flagGone                  // forgotten
	flagDamaged
	flagMore // it has an entry in more
)

// more is what only some accounts have.
type more struct {
	conditions []condition // those that ask for a human, in the order in which they were set last
	talks      turns.Turns
	items      []item // by the names of their kinds
}

// condition is a standing condition that asks for a human.
type condition struct {
	name, scope, reason string
	since               int64
}

// item is one thing that an account needs a human for; of a kind there is one.
type item struct {
	since  int64
	kind   uint32
	reason uint32
	source uint32
	place  uint32 // in its bucket
}

// maxSources bounds the sources told apart; what goes beyond is Other.
const maxSources = 1 << 16

// shard is one partition's part of the view.
type shard struct {
	mu       sync.RWMutex
	ids      *projections.Ids
	machines *machine.Registry
	seq      uint64
	now      int64 // when the last event was judged
	states   *states.Table
	labels   *intern.Labels
	sources  *intern.Table
	kinds    *intern.Table
	reasons  *intern.Table
	names    *intern.Table // of conditions and scopes
	rows     pages.List[row]
	more     map[uint32]*more

	asks    []ask                  // by state
	needed  []need                 // used again for each event
	buckets map[bucketKey][]uint32 // accounts, in no order
	edges   map[bucketKey]*edges   // of the large buckets that were asked for
	order   *btree.BTreeG[uint32]  // accounts with an item, by id; nil, and no buckets, until somebody asks, see settle
}

// ask is what a state asks a human for.
type ask struct {
	kind     string
	ifWanted bool // only while it is to run
}

// bucketKey is what items that began in one minute have in common.
type bucketKey struct {
	kind, reason, source uint32
	minute               int32 // since 1970
}

func newShard(ids *projections.Ids, machines *machine.Registry) *shard {
	return &shard{
		ids: ids, machines: machines, states: states.New(machines), labels: intern.NewLabels(),
		sources: intern.New(), kinds: intern.New(), reasons: intern.New(), names: intern.New(), more: map[uint32]*more{},
	}
}

// asksOf is what a state asks for.
func (s *shard) asksOf(state uint16) ask {
	for len(s.asks) <= int(state) {
		st := s.states.At(uint16(len(s.asks)))
		var a ask
		if m, ok := s.machines.Get(st.Machine); ok {
			found, _ := m.State(st.Name)
			a = ask{kind: found.Attention, ifWanted: found.IfWanted}
		}
		s.asks = append(s.asks, a)
	}
	return s.asks[state]
}

// settle sorts the items into the buckets and the accounts by their ids, if that
// was not done yet; from then on both are kept. A view that is being replayed
// puts it off.
func (s *shard) settle() {
	s.mu.RLock()
	settled := s.order != nil
	s.mu.RUnlock()
	if settled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.order != nil {
		return
	}
	s.ids.RLock()
	defer s.ids.RUnlock()
	ids := s.ids
	s.buckets, s.edges = map[bucketKey][]uint32{}, map[bucketKey]*edges{}
	var numbers []uint32
	for number, m := range s.more {
		if len(m.items) > 0 {
			numbers = append(numbers, number)
		}
	}
	slices.SortFunc(numbers, ids.Compare)
	s.order = btree.NewBTreeGOptions(func(a, b uint32) bool { return ids.Compare(a, b) < 0 }, btree.Options{NoLocks: true})
	for _, number := range numbers {
		s.order.Load(number)
		m := s.more[number]
		for i := range m.items {
			s.join(number, &m.items[i])
		}
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq, s.now = at.Seq, e.Recorded
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	before := *r
	s.fold(r, e)
	changed := r.state != before.state || r.flags != before.flags
	changed = s.conditions(at.Account, r, e) || changed
	changed = s.talk(at.Account, r, e) || changed
	if changed {
		s.refresh(at.Account, r, e.At, cmp.Or(e.Reason.Code, e.Trigger))
	}
}

// damaged marks an account; it may not have an event yet.
func (s *shard) damaged(at projections.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.Grow(int(at.Account)+1, row{})
	if r := s.rows.At(at.Account); r.flags&flagDamaged == 0 {
		r.flags |= flagDamaged
		s.refresh(at.Account, r, s.now, domain.AttentionDamaged)
	}
}

// fold makes r what e makes of the account, by the rules of domain.Evolve.
func (s *shard) fold(r *row, e *domain.Event) {
	first := r.state == states.None
	r.state = s.states.Next(r.state, e)
	if labels, given := states.Labels(e, first); given {
		r.labels = s.labels.ID(labels)
	}
	legal := e.Outcome == domain.Applied || e.Outcome == domain.Noop
	if e.Kind == domain.KindSession && legal && e.Effects&domain.EffectSourceKept == 0 && e.Source != s.sources.Name(r.source) {
		r.source = s.sources.IDWithin(e.Source, maxSources, Other)
	}
	if e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark) {
		r.set(flagAsksLogin, e.Effects&domain.EffectAsksLogin != 0)
	}
	switch {
	case e.Effects&domain.EffectWantRun != 0:
		r.set(flagStop, false)
	case e.Effects&domain.EffectWantStop != 0:
		r.set(flagStop, true)
	}
	switch {
	case e.Effects&domain.EffectForget != 0:
		r.set(flagGone, true)
	case e.Effects&domain.EffectRevive != 0:
		r.set(flagGone, false)
	}
}

func (r *row) set(flag uint8, to bool) {
	r.flags &^= flag
	if to {
		r.flags |= flag
	}
}

// extra returns the account's entry in more, and makes it if there is none.
func (s *shard) extra(number uint32, r *row) *more {
	if r.flags&flagMore == 0 {
		r.flags |= flagMore
		s.more[number] = &more{}
	}
	return s.more[number]
}

// conditions keeps the conditions that ask for a human, and says whether they
// changed.
func (s *shard) conditions(number uint32, r *row, e *domain.Event) (changed bool) {
	at := func(list []condition, name, scope string) int {
		return slices.IndexFunc(list, func(c condition) bool { return c.name == name && c.scope == scope })
	}
	if r.flags&flagMore != 0 {
		m := s.more[number]
		for i := range e.Ended {
			if k := at(m.conditions, e.Ended[i].Name, e.Ended[i].Scope); k >= 0 {
				m.conditions, changed = slices.Delete(m.conditions, k, k+1), true
			}
		}
	}
	for i := range e.Set {
		c := &e.Set[i]
		if meaning, ok := machine.ConditionNamed(c.Name); !ok || !meaning.Attention {
			continue
		}
		m := s.extra(number, r)
		if k := at(m.conditions, c.Name, c.Scope); k >= 0 {
			m.conditions = slices.Delete(m.conditions, k, k+1)
		}
		m.conditions = append(m.conditions, condition{s.text(c.Name), s.text(c.Scope), s.reason(c.Reason), c.Since})
		changed = true
	}
	return changed
}

func (s *shard) text(t string) string { return s.names.Name(s.names.ID(t)) }

// reason is a reason within the bound of those that are told apart.
func (s *shard) reason(t string) string {
	return s.reasons.Name(s.reasons.IDWithin(t, MaxReasons, Other))
}
