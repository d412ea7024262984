package readytime

import (
	"slices"
	"sync"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/pages"
	"github.com/musterhq/muster/projections/internal/states"
)

// row is what the view knows of one account.
type row struct {
	state     uint16
	source    uint16
	onboarded bool // was ready before, or was adopted
	labels    uint32
	open      uint32 // its open episode: index + 1; 0: none
}

// open is an episode that has not ended.
type open struct {
	since   int64 // unix ns
	account uint32
	reason  uint16
	kind    Kind
}

// groupKey names a group of ended episodes; by 0 is all of the kind.
type groupKey struct {
	kind Kind
	by   Dimension
	name string
}

// group is the lengths of ended episodes.
type group struct {
	reached, abandoned sample
}

// add adds the length of an episode; room is how many are kept exactly.
func (g *group) add(end End, length time.Duration, room int) {
	if end == Reached {
		g.reached.add(length, room)
	} else {
		g.abandoned.add(length, room)
	}
}

func (g *group) merge(o *group) {
	g.reached.merge(&o.reached)
	g.abandoned.merge(&o.abandoned)
}

// shard is one partition's part of the view.
type shard struct {
	mu      sync.RWMutex
	seq     uint64
	states  *states.Table
	labels  *intern.Labels
	sources *intern.Table
	reasons *intern.Table
	rows    pages.List[row]
	open    []open // in no order
	groups  map[groupKey]*group
	members map[Dimension]int // groups of each dimension

	began  map[beganKey]*group // the ended episodes by when they began
	latest int64               // the latest beginning of an ended episode, unix ns
}

func newShard(machines *machine.Registry) *shard {
	return &shard{
		states:  states.New(machines),
		labels:  intern.NewLabels(),
		sources: intern.New(),
		reasons: intern.New(),
		groups:  map[groupKey]*group{},
		members: map[Dimension]int{},
		began:   map[beganKey]*group{},
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	if s.indifferent(at, e) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	before := r.state
	r.state = s.states.Next(before, e)
	if labels, given := states.Labels(e, before == states.None); given {
		r.labels = s.labels.ID(labels)
	}
	s.speak(r, e)
	if r.state == before && e.Effects&domain.EffectForget == 0 {
		return
	}
	st := stepOf(s.states.At(before).Class, s.states.At(r.state).Class, e)
	if r.open != 0 {
		if end := st.ends(); end != 0 {
			s.end(r, end, e.At)
		}
	} else if kind := st.begins(r.onboarded); kind != 0 {
		s.begin(at.Account, r, kind, e)
	}
	r.onboarded = r.onboarded || st.adopt || st.to == machine.ClassReady
}

// indifferent says whether an event of an account that is known cannot change
// the view: most events are such, about messages and conversations. It looks
// without a lock, since nobody but apply changes a row.
func (s *shard) indifferent(at projections.Place, e *domain.Event) bool {
	about := e.Kind == domain.KindMessage || e.Kind == domain.KindConversation
	return about && e.Effects&(domain.EffectForget|domain.EffectRevive) == 0 &&
		int(at.Account) < s.rows.Len() && s.rows.At(at.Account).state != states.None
}

// speak makes the event's source the account's, by the rule of domain.Evolve.
func (s *shard) speak(r *row, e *domain.Event) {
	legal := e.Outcome == domain.Applied || e.Outcome == domain.Noop
	if e.Kind != domain.KindSession || !legal || e.Effects&domain.EffectSourceKept != 0 {
		return
	}
	if s.sources.Name(uint32(r.source)) != e.Source {
		r.source = uint16(s.sources.IDWithin(e.Source, MaxGroups, Other))
	}
}

func (s *shard) begin(account uint32, r *row, kind Kind, e *domain.Event) {
	reason := e.Reason.Code
	if reason == "" {
		reason = e.Trigger
	}
	s.open = append(s.open, open{
		since:   e.At,
		account: account,
		reason:  uint16(s.reasons.IDWithin(reason, MaxGroups, Other)),
		kind:    kind,
	})
	r.open = uint32(len(s.open))
}

// end closes an account's episode and enters its length into the groups.
func (s *shard) end(r *row, end End, at int64) {
	i := r.open - 1
	ep := s.open[i]
	last := s.open[len(s.open)-1]
	s.open[i] = last
	s.open = s.open[:len(s.open)-1]
	s.rows.At(last.account).open = i + 1
	r.open = 0

	length := time.Duration(max(0, at-ep.since))
	s.enterBegan(ep, end, length)
	s.enter(groupKey{kind: ep.kind}, end, length, ExactAll)
	for by := ByMachine; by <= ByReason; by++ {
		s.names(ep, by, func(name string) {
			s.enter(groupKey{kind: ep.kind, by: by, name: name}, end, length, ExactGroup)
		})
	}
}

// enter adds the length of an episode to one group.
func (s *shard) enter(key groupKey, end End, length time.Duration, room int) {
	g := s.groups[key]
	if g == nil {
		if key.by != 0 && key.name != Other && s.members[key.by] >= MaxGroups {
			key.name = Other
			s.enter(key, end, length, room)
			return
		}
		g = &group{}
		s.groups[key] = g
		s.members[key.by]++
	}
	g.add(end, length, room)
}

// names calls with the group or groups that an episode belongs to.
func (s *shard) names(ep open, by Dimension, with func(name string)) {
	r := s.rows.At(ep.account)
	switch by {
	case ByMachine:
		with(s.states.At(r.state).Machine)
	case BySource:
		with(s.sources.Name(uint32(r.source)))
	case ByReason:
		with(s.reasons.Name(uint32(ep.reason)))
	case ByLabel:
		for _, pair := range s.labels.Set(r.labels).Pairs {
			with(pair)
		}
	}
}

// copies are lists of open episodes that were copied for a question and are used
// again: a fleet that is down has one for each account.
var copies = sync.Pool{New: func() any { return new([]open) }}

// copyOpen calls look and copies the open episodes, both at one position, and
// calls with the copy, which must not be kept.
func (s *shard) copyOpen(look func(), with func([]open)) {
	list := copies.Get().(*[]open)
	s.mu.RLock()
	look()
	*list = append((*list)[:0], s.open...)
	s.mu.RUnlock()
	with(*list)
	copies.Put(list)
}

// eachGroup calls with every group of every episode. It lets events in between
// so many episodes: a group is that of the account as it is then.
func (s *shard) eachGroup(episodes []open, by Dimension, with func(ep open, name string)) {
	const atOnce = 1024
	for chunk := range slices.Chunk(episodes, atOnce) {
		s.mu.RLock()
		for _, ep := range chunk {
			s.names(ep, by, func(name string) { with(ep, name) })
		}
		s.mu.RUnlock()
	}
}
