package accounts

import (
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

// row is one account, by its number. Names are numbers of the shard's tables.
type row struct {
	since    int64
	version  uint32
	source   uint32
	labels   uint32
	inState  uint32 // its place in byState, while it is shown
	inLabels uint32 // its place in byLabels, while it is shown and has labels
	inNeeds  uint32 // its place in byNeeds, while it is shown and asks for something
	cell     uint32 // while it is shown
	state    uint16 // states.None: no event yet
	needs    uint16 // the set of kinds of attention
	conds    uint16 // the set of names of conditions
	mode     uint8
	desired  uint8
	flags    uint8
}

const (
	flagForgotten = 1 << iota
	flagAsksLogin
	flagDamaged
	flagMore  // it has an entry in more
	flagTurns // it has an entry in turns
)

func (r *row) shown() bool { return r.state != states.None && r.flags&flagForgotten == 0 }

// maxWords bounds the names of modes and of what is desired; there are two of each.
const maxWords = 255

// shard is one partition's part of the view.
type shard struct {
	mu       sync.RWMutex
	ids      *projections.Ids
	machines *machine.Registry
	seq      uint64
	states   *states.Table
	labels   *intern.Labels
	sources  *intern.Table
	words    *intern.Table // modes and what is desired
	names    *intern.Table // of conditions, their scopes and reasons
	rows     pages.List[row]
	needs    *intern.Table                 // sets of kinds of attention
	conds    *intern.Table                 // sets of names of conditions
	more     map[uint32][]domain.Condition // of the accounts that have any
	turns    map[uint32]*turns.Turns       // of the accounts whose customers wait

	// The indexes hold the accounts shown.
	shown    int
	order    *btree.BTreeG[uint32] // by id; nil until somebody asks, see settle
	byState  [][]uint32            // by state, in no order
	byLabels [][]uint32            // by set of labels, in no order; nothing for the empty set
	byNeeds  [][]uint32            // by set of kinds of attention, in no order; nothing for the empty set
	cells    cells

	event   domain.Event   // a copy to fold, without what the view does not keep
	account domain.Account // the account that is being folded
	asks    []ask          // by state
	kinds   []string       // used again for each set
	set     []byte         // likewise
}

func newShard(ids *projections.Ids, machines *machine.Registry) *shard {
	return &shard{
		ids:      ids,
		machines: machines,
		states:   states.New(machines),
		labels:   intern.NewLabels(),
		sources:  intern.New(),
		words:    intern.New(),
		names:    intern.New(),
		needs:    intern.New(),
		conds:    intern.New(),
		more:     map[uint32][]domain.Condition{},
		turns:    map[uint32]*turns.Turns{},
		cells:    cells{numbers: map[cellKey]uint32{}},
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
	first := r.state == states.None
	s.event = *e
	s.event.ID, s.event.Labels = "", nil // nothing asks the view for duplicates; labels are numbered below
	if e.Kind == domain.KindMessage || e.Kind == domain.KindConversation {
		s.event.Kind = 0 // what it says about the account is folded, messages and conversations are kept elsewhere
	}
	var a *domain.Account
	if !first {
		a = &s.account
		s.fill(a, at.Account, r)
	}
	a = domain.Evolve(a, &s.event)
	s.store(at.Account, r, a, e, first)
}

// damaged marks an account; it may not have an event yet.
func (s *shard) damaged(at projections.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	if r.flags&flagDamaged != 0 {
		return
	}
	before := *r
	r.flags |= flagDamaged
	if r.state != states.None {
		r.needs = s.needsOf(at.Account, r)
	}
	s.reindex(at.Account, &before, r)
}

// fill makes the account that a row stands for, without its id and without
// what the view does not keep.
func (s *shard) fill(a *domain.Account, number uint32, r *row) {
	st := s.states.At(r.state)
	*a = domain.Account{
		Machine: st.Machine, State: st.Name, Since: r.since, Version: uint64(r.version),
		Mode: s.words.Name(uint32(r.mode)), Desired: s.words.Name(uint32(r.desired)),
		Labels: s.labels.Set(r.labels).Map, Source: s.sources.Name(r.source),
		Forgotten: r.flags&flagForgotten != 0, AsksLogin: r.flags&flagAsksLogin != 0,
	}
	if r.flags&flagMore != 0 {
		a.Conditions = s.more[number]
	}
}

// store makes r stand for a, which e has just changed, and keeps the indexes.
func (s *shard) store(number uint32, r *row, a *domain.Account, e *domain.Event, first bool) {
	before := *r
	if first {
		r.state = s.states.Number(a.Machine, a.State)
	} else {
		r.state = s.states.Move(r.state, a.State)
	}
	r.since, r.version = a.Since, uint32(a.Version)
	r.mode = s.word(r.mode, a.Mode)
	r.desired = s.word(r.desired, a.Desired)
	if a.Source != s.sources.Name(r.source) {
		r.source = s.sources.ID(a.Source)
	}
	if labels, given := states.Labels(e, first); given {
		r.labels = s.labels.ID(labels)
	}
	r.flags = before.flags &^ (flagForgotten | flagAsksLogin)
	if a.Forgotten {
		r.flags |= flagForgotten
	}
	if a.AsksLogin {
		r.flags |= flagAsksLogin
	}
	conditions := len(e.Set) > 0 || len(e.Ended) > 0
	if conditions {
		s.storeConditions(number, r, a.Conditions)
	}
	if s.speak(number, r, e) || conditions || first || r.state != before.state || r.flags != before.flags || r.desired != before.desired {
		r.needs = s.needsOf(number, r)
	}
	s.reindex(number, &before, r)
}

// word returns the number of a mode or of what is desired.
func (s *shard) word(old uint8, text string) uint8 {
	if s.words.Name(uint32(old)) == text {
		return old
	}
	return uint8(s.words.IDWithin(text, maxWords, ""))
}

// storeConditions keeps the conditions of an account.
func (s *shard) storeConditions(number uint32, r *row, conditions []domain.Condition) {
	if len(conditions) == 0 {
		delete(s.more, number)
		r.flags &^= flagMore
	} else {
		s.ownConditions(conditions)
		s.more[number] = conditions
		r.flags |= flagMore
	}
	r.conds = s.condsOf(conditions)
}

// ownConditions replaces the texts of conditions, which may be part of a
// record, by the shard's own. The slice is Evolve's and nobody else's.
func (s *shard) ownConditions(conditions []domain.Condition) {
	for i := range conditions {
		c := &conditions[i]
		c.Name, c.Scope, c.Reason = s.name(c.Name), s.name(c.Scope), s.name(c.Reason)
	}
}

func (s *shard) name(text string) string { return s.names.Name(s.names.ID(text)) }

// reindex moves an account in the indexes from what it was to what it is.
func (s *shard) reindex(number uint32, before, now *row) {
	was, is := before.shown(), now.shown()
	if was && (!is || before.state != now.state) {
		moved := leave(s.byState, int(before.state), before.inState)
		s.rows.At(moved).inState = before.inState
	}
	if is && (!was || before.state != now.state) {
		now.inState = join(&s.byState, int(now.state), number)
	}
	if was && before.labels != 0 && (!is || before.labels != now.labels) {
		moved := leave(s.byLabels, int(before.labels), before.inLabels)
		s.rows.At(moved).inLabels = before.inLabels
	}
	if is && now.labels != 0 && (!was || before.labels != now.labels) {
		now.inLabels = join(&s.byLabels, int(now.labels), number)
	}
	if was && before.needs != 0 && (!is || before.needs != now.needs) {
		moved := leave(s.byNeeds, int(before.needs), before.inNeeds)
		s.rows.At(moved).inNeeds = before.inNeeds
	}
	if is && now.needs != 0 && (!was || before.needs != now.needs) {
		now.inNeeds = join(&s.byNeeds, int(now.needs), number)
	}
	if was && is && before.key() == now.key() {
		return
	}
	if was {
		s.cells.leave(before.cell)
	}
	if is {
		now.cell = s.cells.enter(now.key())
	}
	switch {
	case is && !was:
		s.shown++
		if s.order != nil {
			s.order.Set(number)
		}
	case was && !is:
		s.shown--
		if s.order != nil {
			s.order.Delete(number)
		}
	}
}

// join appends an account to one of the lists and returns its place there.
func join(lists *[][]uint32, list int, number uint32) (place uint32) {
	for len(*lists) <= list {
		*lists = append(*lists, nil)
	}
	l := append((*lists)[list], number)
	(*lists)[list] = l
	return uint32(len(l) - 1)
}

// leave takes the account at a place out of one of the lists and returns the
// one that has taken its place.
func leave(lists [][]uint32, list int, place uint32) (moved uint32) {
	l := lists[list]
	moved = l[len(l)-1]
	l[place] = moved
	lists[list] = l[:len(l)-1]
	return moved
}
