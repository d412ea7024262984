package domain

import (
	"cmp"
	"maps"
	"slices"
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
// The zero Folding is an account without events.
type Folding struct {
	account Account
	begun   bool
	bench   *Bench
	recent  recentLog
	talk    Talk   // without its trees
	held    []byte // the messages as they were when notes were last folded
	holds   uint32 // how many those are

	notes, ids  uint32 // what was noted since, and how much of it has an id
	noted       int    // bytes
	first, last chunk  // where it stands
	tail        []byte // the last chunk, as far as it is used

	conversations map[string]*Conversation
}

// Bench is the memory in which Foldings take their notes and fold them, one
// Folding after the other. It must not be used by two goroutines at a time.
type Bench struct {
	work   foldingWork
	out    []byte
	spill  []byte
	chunks chunks
}

// NewBench returns a Bench.
func NewBench() *Bench { return &Bench{} }

// NewFolding returns an account without events that takes its notes at a bench.
func NewFolding(b *Bench) *Folding { return &Folding{bench: b} }

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
	f.account.Version = b.Version
	if f.bench == nil {
		f.bench = NewBench()
	}
	f.note(b)
	if f.noted >= max(leastNotes, len(f.held)) {
		f.Settle()
	}
}

// Settle folds what was noted.
func (f *Folding) Settle() {
	if f.notes > 0 {
		f.settle(nil)
	}
}

// settle folds what was noted, and then one more note that stands elsewhere.
func (f *Folding) settle(more []byte) {
	w := &f.bench.work
	w.begin(f, int(f.holds+f.notes))
	for rest := f.held; len(rest) > 0; {
		rest = w.entry(rest)
	}
	for c := f.first; c != 0; {
		rest, next := f.bench.chunks.read(c)
		if c == f.last { // only here it is known how much of it is used
			rest, next = f.tail[chunkHead:], 0
		}
		for len(rest) > 0 {
			rest = w.entry(rest)
		}
		f.bench.chunks.free(c)
		c = next
	}
	if len(more) > 0 {
		w.entry(more)
	}
	f.talk = w.talk
	f.bench.out, f.holds = w.save(f.bench.out[:0])
	f.held = append(f.held[:0], f.bench.out...)
	f.notes, f.ids, f.noted, f.first, f.last, f.tail = 0, 0, 0, 0, 0, nil
}

// Account ends the folding and returns the account; nil when it has no events.
func (f *Folding) Account() *Account {
	if !f.begun {
		return nil
	}
	f.Settle()
	a := f.account
	a.Recent = f.recent.pack()
	t := f.talk
	t.messages = f.messages()
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

// messages makes the tree of the messages that are held; nothing is noted.
func (f *Folding) messages() tree[*Message] {
	type keyed struct {
		key string
		m   Message
	}
	list := make([]keyed, 0, f.holds)
	for r := (noteReader{b: f.held}); len(r.b) > 0; {
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
