package command

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Set is the writers of the partitions that this process owns.
type Set struct {
	cfg     Config
	writers []*writer    // by partition; nil: not owned
	mu      sync.RWMutex // guards writers and closed
	closed  bool
	failed  chan struct{}
	failErr error
	once    sync.Once
	wg      sync.WaitGroup
}

// NewSet returns a Set that owns nothing yet; see [Set.Open].
func NewSet(cfg Config) (*Set, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Set{cfg: cfg, writers: make([]*writer, cfg.Log.Partitions()), failed: make(chan struct{})}, nil
}

// Open takes a partition over: it folds its history (a snapshot and the tail,
// or all of it) and starts its writer. damaged names accounts that are known to
// have lost records, with the reason in words; it may be nil. The name "" stands
// for accounts that are not known: then all is read, which finds them. The report
// says what was read.
func (s *Set) Open(ctx context.Context, partition int, damaged map[string]string) (LoadReport, error) {
	if partition < 0 || partition >= len(s.writers) {
		return LoadReport{}, fmt.Errorf("open partition %d: there are %d", partition, len(s.writers))
	}
	w := newWriter(s, partition)
	report, err := w.load(ctx, damaged)
	if err != nil {
		return report, fmt.Errorf("open partition %d: %w", partition, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return report, ErrShuttingDown
	}
	if s.writers[partition] != nil {
		return report, fmt.Errorf("open partition %d: it is open already", partition)
	}
	s.writers[partition] = w
	s.wg.Go(w.run)
	return report, nil
}

// Owns says whether this process writes the partition.
func (s *Set) Owns(partition int) bool { return s.writer(partition) != nil }

func (s *Set) writer(partition int) *writer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.writers[partition]
}

// Partition returns the partition of an account.
func (s *Set) Partition(account domain.AccountID) int {
	return eventlog.Partition(string(account), len(s.writers))
}

// Submit queues a trigger; done is called exactly once, from the partition's
// writer, when the answer is final. It must not block. An error means that the
// trigger was not taken and done will not be called.
func (s *Set) Submit(t domain.Trigger, done func(Answer)) error {
	w := s.writer(s.Partition(t.Account))
	if w == nil {
		return ErrNotOwner
	}
	return w.submit(&request{trigger: t, done: done, came: w.stamp()})
}

// Do is Submit that waits. When ctx ends first, the trigger may still be stored.
func (s *Set) Do(ctx context.Context, t domain.Trigger) Answer {
	c := make(chan Answer, 1)
	if err := s.Submit(t, func(a Answer) { c <- a }); err != nil {
		return Answer{Err: err}
	}
	select {
	case a := <-c:
		return a
	case <-ctx.Done():
		return Answer{Err: context.Cause(ctx)}
	}
}

// Failed is closed when the log has failed: nothing more can be promised, and
// the process should end and start again. Err says why.
func (s *Set) Failed() <-chan struct{} { return s.failed }

// Err is why Failed was closed.
func (s *Set) Err() error {
	select {
	case <-s.failed:
		return s.failErr
	default:
		return nil
	}
}

func (s *Set) fail(err error) {
	s.once.Do(func() { s.failErr = err; close(s.failed) })
}

// Release stops the writer of one partition: what it has taken is finished,
// a snapshot is written, and later triggers get ErrNotOwner.
func (s *Set) Release(ctx context.Context, partition int) error {
	s.mu.Lock()
	w := s.writers[partition]
	s.writers[partition] = nil
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.stop(ctx)
}

// Close stops all writers: from now on Submit gives ErrShuttingDown, what was
// taken is finished and answered, snapshots are written. It returns when all
// have ended, or with ctx's error when ctx ends first (then callers that still
// wait are answered with ErrUndecided or ErrShuttingDown).
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	writers := append([]*writer(nil), s.writers...)
	s.mu.Unlock()
	errs := make([]error, len(writers))
	var wg sync.WaitGroup
	for i, w := range writers {
		if w != nil {
			wg.Go(func() { errs[i] = w.stop(ctx) })
		}
	}
	wg.Wait()
	s.wg.Wait()
	return errors.Join(errs...)
}

// states are the folded accounts of a partition: what its writer holds, or,
// when another process owns it, what the log says now.
func (s *Set) states(ctx context.Context, p int) ([]frozen, uint64, error) {
	if w := s.writer(p); w != nil {
		return w.snapshotNow(ctx)
	}
	w := newWriter(s, p)
	w.quiet = true
	if _, err := w.load(ctx, nil); err != nil {
		return nil, 0, err
	}
	return w.freeze(), w.whole, nil
}

// Accounts calls f with the folded accounts of all partitions as they are at
// one moment per partition, and returns the sequence up to which each is
// folded. Those of partitions that this process does not own are read from the
// log. The accounts must not be changed.
func (s *Set) Accounts(ctx context.Context, f func(*domain.Account)) (map[int]uint64, error) {
	asOf := map[int]uint64{}
	for p := range s.writers {
		states, seq, err := s.states(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		asOf[p] = seq
		for _, st := range states {
			f(st.acct)
		}
	}
	return asOf, nil
}

// Digest is the digest over all accounts, their number (forgotten ones included
// in neither), and the sequences up to which it holds.
func (s *Set) Digest(ctx context.Context) (digest string, accounts int, asOf map[int]uint64, err error) {
	var all []*domain.Account
	asOf, err = s.Accounts(ctx, func(a *domain.Account) {
		all = append(all, a)
		if !a.Forgotten {
			accounts++
		}
	})
	if err != nil {
		return "", 0, nil, fmt.Errorf("digest: %w", err)
	}
	return domain.Digest(all), accounts, asOf, nil
}
