// Package trace judges a file of triggers on a virtual clock: what a server
// would have answered, without a server.
//
// It owns the rules of the virtual clock: a line's time is the clock's, the
// clock never runs backwards, and Muster's own deadlines fire between the
// lines. What a trigger means is the judge's alone, so a trace and a live
// system agree wherever no deadline falls between the lines.
//
// An exported history is judged as it was: its lines say when each was recorded
// (the field recorded), that time is the clock's, and Muster's own triggers are
// among the lines, so that no deadline fires between them.
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
	run := NewRunner(judge)
	if slices.ContainsFunc(lines, func(l line) bool { return l.trigger.Recorded != 0 }) {
		run.judge, run.recorded = judge.WithoutBeats(), true
	}
	run.start(lines)
	for i := range lines {
		run.line(&lines[i])
	}
	switch {
	case opts.HasUntil:
		run.Fire(opts.Until)
	case !run.recorded:
		run.Fire(run.now)
	}
	return run.Result(), nil
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
