// Package trace judges a file of triggers on a virtual clock: what a server
// would have answered, without a server.
//
// It owns the rules of the virtual clock: a line's time is the clock's, the
// clock never runs backwards, and Muster's own deadlines fire between the
// lines. What a trigger means is the judge's alone, so a trace and a live
// system agree wherever no deadline falls between the lines.
//
// It is pure: lines come in from a reader, the [Result] goes out, and nothing
// else is touched. A line that is no trigger gets the verdict `invalid` and the
// rest is judged; only a reader that fails ends a run with an error.
package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// MaxLine is the longest line that is read, in bytes; a longer one is invalid.
const MaxLine = 4 << 20

// Options say how a trace is judged.
type Options struct {
	Machines *machine.Registry // what can be named; required
	Defaults []string          // machines for accounts that name none, at most one per family
	Mode     string            // mode of accounts that name none; "" = observe
	Until    int64             // deadlines due until then fire at the end, unix ns; see HasUntil
	HasUntil bool              // false: until the last line's time
}

// Result is what came of a trace, in the form in which it is printed.
type Result struct {
	Accounts map[string]domain.AccountView `json:"accounts"`
	Verdicts []Verdict                     `json:"verdicts"`
	Counts   Counts                        `json:"counts"`
	Digest   string                        `json:"digest"`

	// Fold holds the accounts themselves, forgotten ones too, sorted by id.
	Fold []*domain.Account `json:"-"`
	// Events holds what would have been appended, in order.
	Events []*domain.Event `json:"-"`
}

// Verdict is the answer to one line, or, with Line 0, to one of Muster's own
// triggers.
type Verdict struct {
	Line    int    `json:"line"`
	Account string `json:"account"`
	Key     string `json:"key"`
	Trigger string `json:"trigger"`
	Outcome string `json:"outcome"`
	From    string `json:"from"`
	To      string `json:"to"`
	Version uint64 `json:"version"`
	Source  string `json:"source"`
	Reason  string `json:"reason"`
}

// Counts says how often each outcome came, over all verdicts.
type Counts struct {
	Applied   int `json:"applied"`
	Noop      int `json:"noop"`
	Stale     int `json:"stale"`
	Rejected  int `json:"rejected"`
	Duplicate int `json:"duplicate"`
	Conflict  int `json:"conflict"`
	Invalid   int `json:"invalid"`
}

func (c *Counts) add(o domain.Outcome) {
	switch o {
	case domain.Applied:
		c.Applied++
	case domain.Noop:
		c.Noop++
	case domain.Stale:
		c.Stale++
	case domain.Rejected:
		c.Rejected++
	case domain.Duplicate:
		c.Duplicate++
	case domain.Conflict:
		c.Conflict++
	case domain.Invalid:
		c.Invalid++
	}
}

// NewJudge returns the judge that opts ask for.
func NewJudge(opts Options) (*domain.Judge, error) {
	d := domain.Defaults{Mode: opts.Mode}
	for _, name := range opts.Defaults {
		m, ok := opts.Machines.Get(name)
		if !ok {
			if near := opts.Machines.NearestMachine(name); near != "" {
				return nil, fmt.Errorf("machine %q is not known; did you mean %s?", name, near)
			}
			return nil, fmt.Errorf("machine %q is not known", name)
		}
		place := map[string]*string{machine.FamilySession: &d.Session, machine.FamilyMessage: &d.Message, machine.FamilyConversation: &d.Conversation}[m.Family()]
		if *place != "" {
			return nil, fmt.Errorf("machines %s and %s are both for a %s; give one", *place, name, m.Family())
		}
		*place = name
	}
	return domain.NewJudge(opts.Machines).With(d)
}

// Run judges the lines of r in order.
func Run(r io.Reader, opts Options) (*Result, error) {
	judge, err := NewJudge(opts)
	if err != nil {
		return nil, err
	}
	lines, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	run := &runner{judge: judge, accounts: map[domain.AccountID]*domain.Account{}, agenda: domain.NewAgenda()}
	run.start(lines)
	for i := range lines {
		run.line(&lines[i])
	}
	until := run.now
	if opts.HasUntil {
		until = opts.Until
	}
	run.fire(until)
	return run.result(), nil
}

// line is one line of the trace as it was read.
type line struct {
	number  int
	trigger domain.Trigger
	err     error
}

// read parses all lines but the empty ones.
func read(r io.Reader) ([]line, error) {
	var lines []line
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if len(text) > MaxLine {
			lines = append(lines, line{number: number, err: &domain.InvalidError{Reason: fmt.Sprintf("the line is longer than %d bytes", MaxLine)}})
		} else if text = bytes.TrimSpace(text); len(text) > 0 {
			one := line{number: number}
			one.trigger, one.err = domain.ParseLine(text)
			lines = append(lines, one)
		}
		if err != nil {
			return lines, nil
		}
	}
}

// readLine reads to the end of the line, and keeps little more than MaxLine of it.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(text) <= MaxLine {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// runner is a run in progress.
type runner struct {
	judge    *domain.Judge
	accounts map[domain.AccountID]*domain.Account
	agenda   *domain.Agenda
	now      int64
	started  bool // the clock shows a time
	verdicts []Verdict
	counts   Counts
	events   []*domain.Event
}

// start sets the clock to the first time that can be read in the trace.
func (r *runner) start(lines []line) {
	for i := range lines {
		if lines[i].trigger.HasAt {
			r.now, r.started = lines[i].trigger.At, true
			return
		}
	}
}

// line moves the clock to the line's time and judges it.
func (r *runner) line(l *line) {
	t := &l.trigger
	if t.HasAt && t.At > r.now {
		r.fire(t.At - 1)
		r.now = t.At
	} else {
		r.fire(r.now - 1)
	}
	switch {
	case l.err != nil:
		r.refuse(l, l.err)
	case !r.started:
		r.refuse(l, &domain.InvalidError{Field: "at", Reason: "is missing, and no line of the trace has a time"})
	case t.Source == domain.SourceMuster && !spoken(t.Name):
		// The clock makes it again.
	default:
		if !t.HasAt {
			t.At, t.HasAt = r.now, true
		}
		r.judgeOne(l.number, t)
	}
}

// spoken says whether a line of Muster's own is judged: what no clock can make.
func spoken(trigger string) bool {
	return slices.Contains([]string{"recover", "vouch_lost", "vouch_restored"}, trigger)
}

// fire judges the deadlines that are due at end or before, each at its time.
func (r *runner) fire(end int64) {
	for {
		id, ok := r.agenda.PopDue(end)
		if !ok {
			return
		}
		a := r.accounts[id]
		d, ok := r.judge.Due(a)
		if !ok {
			continue
		}
		if d.At > end {
			r.agenda.Set(id, d)
			continue
		}
		r.now = max(r.now, d.At)
		d.Trigger.At = r.now
		r.judgeOne(0, &d.Trigger)
	}
}

// judgeOne judges a trigger at the clock's time and folds what came of it.
func (r *runner) judgeOne(number int, t *domain.Trigger) {
	a := r.accounts[t.Account]
	d := r.judge.Decide(a, t, r.now)
	r.note(number, &d.Verdict)
	if d.Beat != 0 && a != nil {
		a.Beat(t, d.Beat)
		r.agenda.Update(r.judge, a)
	}
	if d.Event == nil {
		return
	}
	a = domain.Evolve(a, d.Event)
	r.accounts[t.Account] = a
	r.events = append(r.events, d.Event)
	r.agenda.Update(r.judge, a)
}

func (r *runner) refuse(l *line, err error) {
	v := domain.Refusal(&l.trigger, err)
	r.note(l.number, &v)
}

func (r *runner) note(number int, v *domain.Verdict) {
	r.counts.add(v.Outcome)
	r.verdicts = append(r.verdicts, Verdict{Line: number, Account: string(v.Account), Key: v.Key, Trigger: v.Trigger, Outcome: v.Outcome.String(),
		From: v.From, To: v.To, Version: v.Version, Source: v.Source, Reason: v.Reason})
}

func (r *runner) result() *Result {
	out := &Result{Accounts: map[string]domain.AccountView{}, Verdicts: r.verdicts, Counts: r.counts, Events: r.events}
	if out.Verdicts == nil {
		out.Verdicts = []Verdict{}
	}
	for id, a := range r.accounts {
		if !a.Forgotten {
			out.Accounts[string(id)] = r.judge.Describe(a)
		}
		out.Fold = append(out.Fold, a)
	}
	slices.SortFunc(out.Fold, func(a, b *domain.Account) int { return strings.Compare(string(a.ID), string(b.ID)) })
	out.Digest = domain.Digest(out.Fold)
	return out
}
