package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog/codec"
)

// maxLine is the longest line of a trace that is read, in bytes: more than any
// server takes as one message.
const maxLine = 8 << 20

// sendFile sends the trace in a file and prints the verdicts in its order.
func (c *cli) sendFile(ctx context.Context, path string, keepGoing bool) error {
	in, err := c.open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	f := &fileSender{cli: c, server: s, path: path, keepGoing: keepGoing, known: lifecycle.Registry(), counts: map[domain.Outcome]int{}}
	f.lines = bufio.NewScanner(in)
	f.lines.Buffer(make([]byte, 64<<10), maxLine)
	return f.run(ctx)
}

// open returns the file's content, or stdin for "-".
func (c *cli) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(c.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, as(errUsage, err)
	}
	return f, nil
}

// fileSender sends one trace. Lines are read on the goroutine that sends;
// verdicts come back on another, as soon as they are there, so that a reader of
// a slow input need not wait for its next line. mu guards what both use.
type fileSender struct {
	*cli
	server    *server
	path      string
	keepGoing bool
	known     *machine.Registry // what this build knows without asking the server

	lines *bufio.Scanner
	line  int     // number of the line read last
	ahead *parsed // read, but to be sent on its own

	mu      sync.Mutex
	pending []int // lines of the triggers under way, oldest first
	bad     []parsed
	ended   bool // no more lines are read
	stopped bool // and nothing more is sent, of what was read either

	counts map[domain.Outcome]int
	err    error // the first failure that was no verdict
}

// parsed is one line of the trace.
type parsed struct {
	line    int
	trigger domain.Trigger
	err     error // why it is no trigger
}

// run sends line after line. Most go out side by side; a line that the server
// may find invalid (this build does not know its trigger or machine) waits for
// all before it, and those behind wait for its verdict, so that nothing
// behind a bad line is sent.
func (f *fileSender) run(ctx context.Context) error {
	for !f.stopped && !f.ended {
		if err := f.server.SendMany(ctx, f.sure, 0, f.each); err != nil {
			return err
		}
		if f.ahead == nil || f.stopped {
			break
		}
		doubtful := f.ahead
		f.ahead = nil
		one := func(yield func(domain.Trigger) bool) {
			f.pending = append(f.pending, doubtful.line)
			yield(doubtful.trigger)
		}
		if err := f.server.SendMany(ctx, one, 1, f.each); err != nil {
			return err
		}
	}
	f.flushBad(-1)
	return f.result()
}

// sure yields triggers up to the end of the file, or to a line that must be
// sent on its own.
func (f *fileSender) sure(yield func(domain.Trigger) bool) {
	for {
		p, ok := f.read()
		if !ok {
			return
		}
		send, more := f.place(p)
		if send && !yield(p.trigger) || !more {
			return
		}
	}
}

// place says whether a line is to be sent now, and whether more are to be read.
func (f *fileSender) place(p parsed) (send, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped:
		return false, false
	case p.err != nil && !f.keepGoing:
		// What stands before is still under way; it is told when that is done.
		f.bad = append(f.bad, p)
		f.ended = true
		return false, false
	case p.err != nil:
		f.bad = append(f.bad, p)
		if len(f.pending) == 0 {
			f.flushBad(-1)
		}
		return false, true
	case f.doubtful(&p) && !f.keepGoing:
		f.ahead = &p
		return false, false
	default:
		f.pending = append(f.pending, p.line)
		return true, true
	}
}

// doubtful says whether only the server can tell that a line is a trigger.
func (f *fileSender) doubtful(p *parsed) bool {
	_, reserved := machine.Reserved(p.trigger.Name)
	_, known := f.known.Get(p.trigger.Machine)
	return !reserved && !f.known.Knows(p.trigger.Name) || p.trigger.Machine != "" && !known
}

// read returns the next line that is not empty.
func (f *fileSender) read() (parsed, bool) {
	for f.lines.Scan() {
		f.line++
		text := bytes.TrimSpace(f.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		t, err := domain.ParseTrigger(text)
		return parsed{line: f.line, trigger: t, err: f.fits(&t, len(text), err)}, true
	}
	if err := f.lines.Err(); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fail(f.line+1, as(errUsage, fmt.Errorf("cannot be read: %w", err)))
		f.stopped = true
	}
	return parsed{}, false
}

// surelyFits is the size of a line that no message is too small for.
const surelyFits = 256 << 10

// fits returns err, or why a trigger does not fit into a message. It is found
// here so that it counts as any other bad line.
func (f *fileSender) fits(t *domain.Trigger, size int, err error) error {
	if err != nil || size <= surelyFits {
		return err
	}
	message, err := codec.AppendTrigger(nil, t)
	if err == nil && int64(len(message)) > f.server.maxPayload {
		err = fmt.Errorf("the message has %d bytes and the server takes %d at most", len(message), f.server.maxPayload)
	}
	return err
}

// each takes what became of one trigger. It returns false when no more are to
// be sent.
func (f *fileSender) each(s bus.Sent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := f.pending[0]
	f.pending = f.pending[1:]
	f.flushBad(line)
	switch {
	case s.Err != nil:
		f.fail(line, f.hint(s.Err))
		f.stopped = f.stopped || !f.keepGoing
	case !f.print(line, &s.Reply):
		f.stopped = true
	case s.Reply.Outcome == domain.Invalid && !f.keepGoing:
		f.stopped = true
	}
	if len(f.pending) == 0 {
		f.flushBad(-1)
	}
	return !f.stopped
}

// flushBad prints the verdicts on lines that are no triggers and stand before
// the given line (-1: all).
func (f *fileSender) flushBad(before int) {
	for len(f.bad) > 0 && (before < 0 || f.bad[0].line < before) {
		p := f.bad[0]
		f.bad = f.bad[1:]
		reply := invalidReply(p.trigger, p.err)
		if !f.print(p.line, &reply) {
			f.stopped = true
		}
	}
}

// print writes a verdict and counts it; what is invalid is also told with its
// line. It returns false when the output is gone.
func (f *fileSender) print(line int, r *bus.Reply) bool {
	f.counts[r.Outcome]++
	if r.Outcome == domain.Invalid {
		fmt.Fprintf(f.streams.err, "muster: %s:%d: %s\n", f.path, line, printable(r.Reason))
	}
	if err := f.printReply(r); err != nil {
		f.err = errors.Join(f.err, err)
		return false
	}
	return true
}

// fail tells of a line that got no verdict, and keeps the first such error.
func (f *fileSender) fail(line int, err error) {
	fmt.Fprintf(f.streams.err, "muster: %s:%d: %v\n", f.path, line, err)
	if f.err == nil {
		f.err = fmt.Errorf("%s:%d: %w", f.path, line, err)
	}
}

// result says how it went and returns the error that the exit code is made of.
func (f *fileSender) result() error {
	var words []string
	total := 0
	for o := domain.Applied; o <= domain.Invalid; o++ {
		if n := f.counts[o]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, o))
			total += n
		}
	}
	if total == 0 {
		words = []string{"nothing was sent"}
	}
	fmt.Fprintf(f.streams.err, "%d verdicts: %s\n", total, strings.Join(words, ", "))
	if f.err != nil {
		return &saidError{f.err}
	}
	for _, o := range []domain.Outcome{domain.Invalid, domain.Conflict, domain.Rejected, domain.Stale} {
		if f.counts[o] > 0 {
			return &saidError{as(outcomeClasses[o], fmt.Errorf("%d %s", f.counts[o], o))}
		}
	}
	return nil
}
