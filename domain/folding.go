package domain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Folding is an account while its history is folded from the first event on and
// nobody looks at it: what [Evolve] does, for less. Evolve keeps the account
// ready to be judged after every event and never changes what others may share.
// A Folding notes what events say of messages and conversations, some 60 bytes
// for each, and folds the notes of one account together when there are some
// dozens: a fleet's events come in the order of time, and to look for the memory
// of another account's messages at each of them takes longer than all the rest.
// Both give the same account for the same events.
//
// The zero Folding is an account without events, with a bench of its own.
type Folding struct {
	// What every event looks at stands together.
	bench   *Bench
	notes   chain // the last ids, the messages as they were when notes were last folded, and the notes since then
	version uint64
	settled int    // bytes of notes that are no notes yet
	noted   uint32 // events
	ids     uint32 // of them, those with an id

	begun    bool
	recent   recentSize
	messages uint32 // as they were
	talk     Talk   // without its trees
	account  Account

	conversations map[string]*Conversation
}

// Bench is the memory in which Foldings take their notes and fold them, one
// Folding after the other. It must not be used by two goroutines at a time.
type Bench struct {
	work    foldingWork
	in, out []byte
	chunks  chunks
}

// NewBench returns a Bench.
func NewBench() *Bench { return &Bench{} }

// Use makes an account without events take its notes at a bench.
func (f *Folding) Use(b *Bench) { f.bench = b }

// leastNotes is how many bytes of notes are folded at least; more are when the
// messages that they must be brought together with take more.
const leastNotes = 4096

// Evolve applies an event. It keeps e's strings; the caller must own them.
func (f *Folding) Evolve(e *Event) {
	if !f.begun {
		f.account, f.begun = *newAccount(e), true
	}
	f.account.apply(e, true)
	b := e.brief()
	f.EvolveBrief(&b)
}

// EvolveBrief applies an event that a Brief tells all of; it is not the first
// one of its account. It keeps no string.
func (f *Folding) EvolveBrief(b *Brief) {
	if f.bench == nil {
		f.bench = NewBench()
	}
	f.version = b.Version
	f.noted++
	if b.ID != "" {
		f.ids++
	}
	f.notes.add(f.bench, b)
	if f.notes.size >= f.settled+max(leastNotes, f.settled) {
		f.Settle()
	}
}

// Settle folds what was noted.
func (f *Folding) Settle() {
	if f.noted == 0 {
		return
	}
	b, w := f.bench, &f.bench.work
	b.in = f.notes.drain(b, b.in[:0])
	w.begin(f, int(f.messages+f.noted))
	for rest := w.recent.take(f.recent, b.in, int(f.ids)); len(rest) > 0; {
		rest = w.entry(rest)
	}
	f.talk, f.recent = w.talk, w.recent.size()
	b.out, f.messages = w.save(append(b.out[:0], w.recent.list...))
	f.notes.write(b, b.out)
	f.settled, f.noted, f.ids = f.notes.size, 0, 0
}

// Account ends the folding and returns the account; nil when it has no events.
func (f *Folding) Account() *Account {
	if !f.begun {
		return nil
	}
	f.Settle()
	a := f.account
	a.Version = f.version
	a.ID = AccountID(strings.Clone(string(a.ID))) // which may be part of more
	in := f.notes.drain(f.bench, nil)
	a.Recent = packRecent(in[:f.recent.bytes])
	t := f.talk
	t.messages = f.tree(in[f.recent.bytes:])
	keys := slices.Sorted(maps.Keys(f.conversations))
	conversations := make([]*Conversation, len(keys))
	for i, key := range keys {
		conversations[i] = f.conversations[key]
	}
	t.conversations = build(keys, conversations)
	if t != (Talk{}) {
		a.Talk = &t
	}
	return &a
}

// tree makes the tree of the messages that are held.
func (f *Folding) tree(held []byte) tree[*Message] {
	type keyed struct {
		key string
		m   Message
	}
	list := make([]keyed, 0, f.messages)
	for r := (noteReader{b: held}); len(r.b) > 0; {
		r.byte() // what it is: a message
		m, key := r.message()
		list = append(list, keyed{string(key), m})
	}
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	keys, messages := make([]string, len(list)), make([]*Message, len(list))
	for i := range list {
		keys[i], messages[i] = list[i].key, &list[i].m
	}
	return build(keys, messages)
}
