package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/musterhq/muster/eventlog"
)

// Op names an operation that a Fault can hit.
type Op string

// The operations of a log and of its blobs.
const (
	OpAppend  Op = "append"
	OpSync    Op = "sync"
	OpLast    Op = "last"
	OpAccount Op = "account"
	OpBack    Op = "back"
	OpRead    Op = "read"
	OpFollow  Op = "follow"
	OpInfo    Op = "info"
	OpPut     Op = "put"
	OpGet     Op = "get"
	OpDelete  Op = "delete"
)

// Action is what a Fault does.
type Action string

// The actions. For a log that loses the answer to an append, LoseAnswer; for
// one that loses its connection half-way, Tear.
const (
	// Fail does nothing and returns Err.
	Fail Action = "fails"
	// LoseAnswer does all of it and returns Err. Append: all is stored.
	LoseAnswer Action = "loses its answer"
	// Tear does the first After entries, records or bytes of it and returns
	// Err. Append: every entry gets Err, so nobody can tell which are stored.
	// With a nil Err a torn Put or Get looks like a whole one.
	Tear Action = "is torn"
	// Delay waits for Gate to be closed (or for the context), or for For, and then does it.
	Delay Action = "is delayed"
)

// Fault hits one call of one operation.
type Fault struct {
	Op    Op
	Nth   int // which call of Op, counted from 1; 0 = each one
	Do    Action
	After int             // Tear: how much is done
	Err   error           // nil: ErrUnknown for an append, ErrInjected for the rest
	Gate  <-chan struct{} // Delay
	For   time.Duration   // Delay without a Gate
}

// ErrInjected is the error of a fault that names no other.
var ErrInjected = errors.New("injected fault")

// String is one line such as: append 3 is torn after 2: <error>.
func (f Fault) String() string {
	s := string(f.Op) + " " + string(f.Do)
	if f.Nth > 0 {
		s = fmt.Sprintf("%s %d %s", f.Op, f.Nth, f.Do)
	}
	if f.Do == Tear {
		s += fmt.Sprintf(" after %d", f.After)
	}
	if f.Do != Delay {
		s += ": " + f.err().Error()
	}
	return s
}

func (f Fault) err() error {
	switch {
	case f.Err != nil:
		return f.Err
	case f.Op == OpAppend:
		return fmt.Errorf("%w: %w", eventlog.ErrUnknown, ErrInjected)
	default:
		return ErrInjected
	}
}

// Faults is a script of faults with its count of calls, shared by the log and
// the blobs that it is given to.
type Faults struct {
	mu     sync.Mutex
	script []Fault
	calls  map[Op]int
	fired  []string
}

// Script returns the faults in a form that Faulty and FaultyBlobs take.
func Script(faults ...Fault) *Faults { return &Faults{script: faults, calls: map[Op]int{}} }

// Add puts further faults into the script; Nth goes on counting from the first call ever.
func (s *Faults) Add(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, faults...)
}

// Calls is the number of calls of an operation so far.
func (s *Faults) Calls(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// Fired returns the faults that have hit, printed, in order.
func (s *Faults) Fired() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.fired...)
}

// hit counts a call and returns the fault that is meant for it. It waits out a delay.
func (s *Faults) hit(ctx context.Context, op Op) (Fault, bool) {
	f, ok := s.next(op)
	if !ok || f.Do != Delay {
		return f, ok
	}
	gate := f.Gate
	var timer <-chan time.Time
	if gate == nil {
		t := time.NewTimer(f.For)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-gate:
	case <-timer:
	case <-ctx.Done():
	}
	return f, false
}

func (s *Faults) next(op Op) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	for _, f := range s.script {
		if f.Op == op && (f.Nth == 0 || f.Nth == s.calls[op]) {
			s.fired = append(s.fired, f.String())
			return f, true
		}
	}
	return Fault{}, false
}

// Faulty wraps a log so that the script's faults hit it.
func Faulty(log eventlog.Log, faults *Faults) eventlog.Log { return &faultyLog{log, faults} }

type faultyLog struct {
	log    eventlog.Log
	faults *Faults
}

func (l *faultyLog) Partitions() int { return l.log.Partitions() }
func (l *faultyLog) Close() error    { return l.log.Close() }

func (l *faultyLog) Append(ctx context.Context, partition int, group []eventlog.Entry) []eventlog.Result {
	f, ok := l.faults.hit(ctx, OpAppend)
	if !ok {
		return l.log.Append(ctx, partition, group)
	}
	switch f.Do {
	case LoseAnswer:
		l.log.Append(ctx, partition, group)
	case Tear:
		l.log.Append(ctx, partition, group[:min(f.After, len(group))])
	}
	results := make([]eventlog.Result, len(group))
	for i := range results {
		results[i].Err = f.err()
	}
	return results
}

func (l *faultyLog) Sync(ctx context.Context, partition int) error {
	if f, ok := l.faults.hit(ctx, OpSync); ok {
		return f.err()
	}
	return l.log.Sync(ctx, partition)
}

func (l *faultyLog) Last(ctx context.Context, account string) (eventlog.Record, error) {
	if f, ok := l.faults.hit(ctx, OpLast); ok {
		return eventlog.Record{}, f.err()
	}
	return l.log.Last(ctx, account)
}

func (l *faultyLog) Info(ctx context.Context, partition int) (eventlog.Info, error) {
	if f, ok := l.faults.hit(ctx, OpInfo); ok {
		return eventlog.Info{}, f.err()
	}
	return l.log.Info(ctx, partition)
}

func (l *faultyLog) Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return l.faults.tear(ctx, OpAccount, l.log.Account(ctx, account, from))
}

func (l *faultyLog) Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return l.faults.tear(ctx, OpBack, l.log.Back(ctx, account, from))
}

func (l *faultyLog) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return l.faults.tear(ctx, OpRead, l.log.Read(ctx, partition, after))
}

func (l *faultyLog) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return l.faults.tear(ctx, OpFollow, l.log.Follow(ctx, partition, after))
}

// tear ends a sequence with an error where a fault says so.
func (s *Faults) tear(ctx context.Context, op Op, seq iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		f, hit := s.hit(ctx, op)
		if !hit {
			seq(yield)
			return
		}
		left := 0
		if f.Do == Tear {
			left = f.After
		}
		if left > 0 {
			for r, err := range seq {
				if !yield(r, err) {
					return
				}
				if left--; left == 0 {
					break
				}
			}
		}
		yield(eventlog.Record{}, f.err())
	}
}

// FaultyBlobs wraps blobs so that the script's faults hit them.
func FaultyBlobs(blobs eventlog.Blobs, faults *Faults) eventlog.Blobs {
	return &faultyBlobs{blobs, faults}
}

type faultyBlobs struct {
	blobs  eventlog.Blobs
	faults *Faults
}

func (b *faultyBlobs) Put(ctx context.Context, name string, r io.Reader) error {
	f, ok := b.faults.hit(ctx, OpPut)
	switch {
	case !ok:
		return b.blobs.Put(ctx, name, r)
	case f.Do == Tear:
		if err := b.blobs.Put(ctx, name, io.LimitReader(r, int64(f.After))); err != nil {
			return err
		}
		return f.Err
	case f.Do == LoseAnswer:
		if err := b.blobs.Put(ctx, name, r); err != nil {
			return err
		}
	}
	return f.err()
}

func (b *faultyBlobs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	f, ok := b.faults.hit(ctx, OpGet)
	if !ok {
		return b.blobs.Get(ctx, name)
	}
	if f.Do != Tear {
		return nil, f.err()
	}
	r, err := b.blobs.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	part := io.Reader(io.LimitReader(r, int64(f.After)))
	if f.Err != nil {
		part = io.MultiReader(part, failing{f.Err})
	}
	return struct {
		io.Reader
		io.Closer
	}{part, r}, nil
}

func (b *faultyBlobs) Delete(ctx context.Context, name string) error {
	if f, ok := b.faults.hit(ctx, OpDelete); ok {
		return f.err()
	}
	return b.blobs.Delete(ctx, name)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
