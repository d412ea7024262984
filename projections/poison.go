package projections

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Poison says what becomes of a view that cannot take an event: that panics.
// The other views never notice.
type Poison uint8

// The ways to go on behind an event that a view cannot take.
const (
	// Halt: the view takes no more events of that partition. Its answers are
	// right up to the event and grow older; the next start, or a rebuild, folds it
	// anew. This is the standard: a view that has taken half an event in may be
	// wrong from there on.
	Halt Poison = iota
	// Park: the event is passed over, counted and named, and the view goes on.
	Park
)

// ParsePoison reads halt or park.
func ParsePoison(s string) (Poison, error) {
	switch s {
	case "halt":
		return Halt, nil
	case "park":
		return Park, nil
	}
	return 0, fmt.Errorf("%q: it is halt or park", s)
}

// ParsePoisonRules reads rules such as "halt" or "park,route=halt": the one for all
// views, and those for some by name. Config.PoisonOf is checked for names that no
// view has.
func ParsePoisonRules(s string) (all Poison, of map[string]Poison, err error) {
	for word := range strings.SplitSeq(s, ",") {
		name, rule, named := strings.Cut(word, "=")
		if !named {
			rule = name
		}
		p, err := ParsePoison(rule)
		switch {
		case err != nil:
			return Halt, nil, err
		case !named:
			all = p
		default:
			if of == nil {
				of = map[string]Poison{}
			}
			of[name] = p
		}
	}
	return all, of, nil
}

// String is halt or park.
func (p Poison) String() string {
	if p == Park {
		return "park"
	}
	return "halt"
}

// Fault is an event that a view could not take.
type Fault struct {
	Partition int
	Seq       uint64
	Account   domain.AccountID
	Err       string // what it panicked with
}

// keptFaults is the number of faults of a view that are kept as examples in each
// partition.
const keptFaults = 8

// slot is one view in one partition. It belongs to who holds the partition's gate.
type slot struct {
	at     uint64 // the view holds everything up to here
	halted bool
	parked uint64
	faults []Fault
}

// lineage knows the last event number of accounts, by their numbers.
type lineage []uint32

// follows says whether an event's number is the one that follows the account's
// last, and which that is.
func (l *lineage) follows(account uint32, version uint64) (want uint64, ok bool) {
	for len(*l) <= int(account) {
		*l = append(*l, 0)
	}
	want = uint64((*l)[account]) + 1
	(*l)[account] = uint32(version)
	return want, version == want
}

// read decodes a record into e.
func read(rec eventlog.Record, decode Decode, e *domain.Event) error {
	e.Account = ""
	if err := decode(rec.Data, e); err != nil {
		return err
	}
	switch {
	case string(e.Account) != rec.Account:
		return fmt.Errorf("the record names account %q", e.Account)
	case rec.Account == "" || len(rec.Account) > maxID:
		return errors.New("no account has such an id")
	}
	return nil
}

// given is what views are given of a record: an event, that something of its
// account is damaged, or both.
type given struct {
	at      Place
	event   *domain.Event // nil: it could not be read
	damaged bool
}

// feed gives it to one view.
func (g *given) feed(v View) {
	if g.damaged {
		if o, ok := v.(DamageObserver); ok {
			o.Damaged(g.at)
		}
	}
	if g.event != nil {
		v.Apply(g.at, g.event)
	}
}

// panicked is what a view panicked with.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprint("panic: ", p.value) }

// feedFrom gives it to the views from number i on, those that hold it or are
// halted left out, and stops at one that panics.
func (p *runnerPart) feedFrom(views []View, i int, g *given) (culprit int, cause *panicked) {
	defer func() {
		if value := recover(); value != nil {
			culprit, cause = i, &panicked{value, debug.Stack()}
		}
	}()
	for ; i < len(views); i++ {
		if s := &p.slots[i]; !s.halted && g.at.Seq > s.at {
			g.feed(views[i])
			s.at = g.at.Seq
		}
	}
	return i, nil
}

// feed gives it to all views; the caller holds gate.
func (r *Runner) feed(p *runnerPart, g *given) {
	for i := 0; ; i++ {
		culprit, cause := p.feedFrom(r.cfg.Views, i, g)
		if cause == nil {
			return
		}
		i = culprit
		r.poisoned(p, i, g, cause)
	}
}

// poisoned notes that a view could not take an event, and halts it or goes on.
func (r *Runner) poisoned(p *runnerPart, i int, g *given, cause *panicked) {
	v, s := r.cfg.Views[i], &p.slots[i]
	s.note(g, cause)
	if r.poisonOf(v) == Halt {
		s.halted = true
	} else {
		s.parked++
		s.at = g.at.Seq
	}
	r.report(p, i)
	a := Alarm{Kind: Poisoned, Partition: p.number, Seq: g.at.Seq, View: v.Name(), Err: cause, Stack: cause.stack}
	if g.event != nil {
		a.Account = g.event.Account
	}
	r.alarm(a)
}

// note keeps a fault if it is one of the first.
func (s *slot) note(g *given, cause *panicked) {
	if len(s.faults) == keptFaults {
		return
	}
	f := Fault{Partition: g.at.Partition, Seq: g.at.Seq, Err: cause.Error()}
	if g.event != nil {
		f.Account = domain.AccountID(string(append([]byte(nil), g.event.Account...))) // the event's texts are part of a record
	}
	s.faults = append(s.faults, f)
}

func (r *Runner) poisonOf(v View) Poison {
	if p, ok := r.cfg.PoisonOf[v.Name()]; ok {
		return p
	}
	return r.cfg.Poison
}

// report makes the status tell of a view in a partition; the caller holds gate.
func (r *Runner) report(p *runnerPart, i int) {
	s := &p.slots[i]
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.health[i]
	h.halted[p.number], h.parked[p.number], h.faults[p.number] = s.halted, s.parked, slices.Clone(s.faults)
}

// health is what the status tells of one view, by partition.
type health struct {
	halted []bool
	parked []uint64
	faults [][]Fault
}

func newHealth(partitions int) health {
	return health{make([]bool, partitions), make([]uint64, partitions), make([][]Fault, partitions)}
}

// settle calls Settle of a view that puts work off. One that panics over it does
// that work, and panics, when it is asked; the others are settled all the same.
func (r *Runner) settle(v View) {
	s, ok := v.(Settler)
	if !ok {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			r.alarm(Alarm{Kind: Poisoned, View: v.Name(), Err: fmt.Errorf("settle: panic: %v", value), Stack: debug.Stack()})
		}
	}()
	s.Settle()
}
