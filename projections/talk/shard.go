package talk

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/wire"
)

// shard is one partition's part of the view.
type shard struct {
	mu    sync.RWMutex
	ids   *projections.Ids
	seq   uint64
	talks map[uint32]*domain.Talk // by account; those without any have no entry
	gone  map[uint32]bool         // accounts that were forgotten
	names *intern.Table           // of states

	order *btree.BTreeG[uint32] // the accounts shown, by id
	shown Size
	now   now
	told  told
}

func newShard(ids *projections.Ids) *shard {
	return &shard{
		ids: ids, talks: map[uint32]*domain.Talk{}, gone: map[uint32]bool{}, names: intern.New(),
		order: btree.NewBTreeGOptions(func(a, b uint32) bool { return ids.Compare(a, b) < 0 }, btree.Options{NoLocks: true}),
		now:   newNow(), told: told{entered: map[string]uint64{}, claims: map[string]uint64{}},
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	before := s.talks[at.Account]
	wasGone, about := s.gone[at.Account], e.Kind == domain.KindMessage || e.Kind == domain.KindConversation
	talk := before
	if about {
		own := s.own(e)
		talk = domain.EvolveTalk(before, &own)
		own.Data = e.Data
		s.told.take(&own, before, talk)
		if !wasGone {
			s.now.key(before, &own, -1)
			s.now.key(talk, &own, +1)
		}
	} else if before != nil {
		talk = domain.EvolveTalk(before, e)
	}
	switch {
	case e.Effects&domain.EffectForget != 0:
		s.gone[at.Account] = true
	case e.Effects&domain.EffectRevive != 0:
		delete(s.gone, at.Account)
	}
	isGone := s.gone[at.Account]
	switch {
	case isGone && !wasGone:
		s.now.all(talk, -1)
	case wasGone && !isGone:
		s.now.all(talk, +1)
	}
	if talk != before || isGone != wasGone {
		s.put(at.Account, talk, wasGone, isGone)
	}
}

// put makes talk the account's, and keeps the order and the counts.
func (s *shard) put(number uint32, talk *domain.Talk, wasGone, isGone bool) {
	before := s.talks[number]
	if !wasGone && before != nil {
		s.count(before, -1)
	}
	if talk == nil {
		delete(s.talks, number)
	} else {
		s.talks[number] = talk
	}
	if !isGone && talk != nil {
		s.count(talk, +1)
	}
	switch was, is := !wasGone && before != nil, !isGone && talk != nil; {
	case is && !was:
		s.order.Set(number)
	case was && !is:
		s.order.Delete(number)
	}
}

func (s *shard) count(t *domain.Talk, d int) {
	messages, conversations := t.Size()
	s.shown.Accounts += d
	s.shown.Messages += d * messages
	s.shown.Conversations += d * conversations
}

// own copies an event with copies of the texts that the fold keeps: they may be
// part of a record.
func (s *shard) own(e *domain.Event) domain.Event {
	c := *e
	c.Key = strings.Clone(e.Key)
	c.To = s.names.Name(s.names.ID(e.To))
	if e.Effects&(domain.EffectOpensTurn|domain.EffectClaim) != 0 {
		c.Data = make(domain.Data, 2)
		for _, name := range []string{"message", "handler"} {
			if text, ok := e.Data[name].(string); ok {
				c.Data[name] = strings.Clone(text)
			}
		}
	}
	return c
}

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	out.Uint(uint64(len(s.gone)))
	for _, number := range slices.Sorted(maps.Keys(s.gone)) {
		out.Uint(uint64(number))
	}
	s.told.save(out)
	out.Uint(uint64(len(s.talks)))
	var buf []byte
	for _, number := range slices.Sorted(maps.Keys(s.talks)) {
		out.Uint(uint64(number))
		buf = domain.AppendCanonical(buf[:0], &domain.Account{Talk: s.talks[number]})
		out.Bytes(buf)
	}
	return out.Flush()
}

// load fills an empty shard.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.gone[in.Index(s.ids.Len())] = true
	}
	s.told.load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		number := in.Index(s.ids.Len())
		var a domain.Account
		if b := in.Bytes(); in.Err() == nil {
			if err := a.UnmarshalBinary(b); err != nil {
				in.Fail(fmt.Errorf("messages and conversations: %w", err))
			}
		}
		if in.Err() == nil && a.Talk != nil {
			gone := s.gone[number]
			if !gone {
				s.now.all(a.Talk, +1)
			}
			s.put(number, a.Talk, gone, gone)
		}
	}
	return in.Err()
}
