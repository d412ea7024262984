package offline

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/projections"
)

// archiverTee is how many committed records of a partition may wait in memory to
// be archived; what is pushed out is read from the log.
const archiverTee = 1 << 14

// The waits before an archive that failed is tried again.
const (
	firstArchiveRetry = time.Second
	lastArchiveRetry  = time.Minute
)

// ArchiverConfig says what is archived, and where. Dir and Log are required.
type ArchiverConfig struct {
	Dir    string
	Log    History       // as it is stored
	Every  time.Duration // as in Copying
	Limits archive.Limits
	Logger *slog.Logger // default: discarded
}

// Archiver keeps an archive up to date with a log that this process appends to.
// It is behind the log by a second or so and never holds a writer back. While
// the archive cannot be written (a full disk, a folder that has gone) it says so
// and tries again; what it has missed it reads from the log then.
type Archiver struct {
	cfg  ArchiverConfig
	tee  *projections.Tee
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	parts   []archiving
	failure string
	moved   chan struct{} // closed and replaced when parts or failure change
}

// archiving is how far one partition has come.
type archiving struct {
	committed uint64    // the last record that is known to be stored
	added     uint64    // handed to the archive's writer
	synced    uint64    // on disk in the archive
	since     time.Time // when the first record that is not synced was stored; zero: there is none
}

// ArchiverStats is how far an archive has come.
type ArchiverStats struct {
	Dir string `json:"dir"`
	// Archived is the sequence up to which the archive is on disk, by partition.
	Archived map[int]uint64 `json:"archived"`
	// Behind is how many sequences are stored and not on disk in the archive.
	Behind uint64 `json:"behind"`
	// Lag is how long the oldest of them has been waiting, in seconds.
	Lag float64 `json:"lag_s"`
	// Error is why nothing is archived at present; "" = it is.
	Error string `json:"error,omitempty"`
}

// StartArchiver opens the archive and begins to follow the log. It refuses an
// archive of another log, one that somebody else writes, and one that is ahead
// of the log (*AheadError). Close must be called.
func StartArchiver(ctx context.Context, cfg ArchiverConfig) (*Archiver, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := OpenFor(ctx, cfg.Dir, cfg.Log, cfg.Limits)
	if err != nil {
		return nil, err
	}
	n := cfg.Log.Partitions()
	a := &Archiver{
		cfg: cfg, tee: projections.NewTee(cfg.Log, n, archiverTee), done: make(chan struct{}),
		parts: make([]archiving, n), moved: make(chan struct{}),
	}
	for p := range n {
		info, err := cfg.Log.Info(ctx, p)
		if err != nil {
			_ = w.Close() // nothing was added
			return nil, fmt.Errorf("open archive: partition %d: %w", p, err)
		}
		a.parts[p] = archiving{committed: info.Last, added: w.Last(p), synced: w.Last(p)}
		if info.Last > w.Last(p) {
			a.parts[p].since = time.Now()
		}
	}
	work, stop := context.WithCancel(context.Background())
	a.stop = stop
	go a.run(work, w)
	return a, nil
}

// Offer hands over records that are stored, in their order. It never waits.
func (a *Archiver) Offer(partition int, records []eventlog.Record) {
	if len(records) == 0 {
		return
	}
	a.tee.Offer(partition, records)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parts[partition].reached(records[len(records)-1].Seq)
}

// reached notes that a record is stored.
func (p *archiving) reached(seq uint64) {
	if p.committed = max(p.committed, seq); p.since.IsZero() && p.committed > p.synced {
		p.since = time.Now()
	}
}

// progress is told by the archive's writing goroutines.
func (a *Archiver) progress(partition int, last uint64, synced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &a.parts[partition]
	p.added = max(p.added, last)
	p.reached(last)
	if synced {
		p.synced = max(p.synced, last)
		p.since = time.Time{}
		if p.committed > p.synced {
			p.since = time.Now()
		}
		a.failure = ""
	}
	a.signal()
}

// signal wakes those who wait for progress; a.mu is held.
func (a *Archiver) signal() {
	close(a.moved)
	a.moved = make(chan struct{})
}

// teed is a log whose new records come from memory where they can.
type teed struct {
	History
	tee *projections.Tee
}

// Follow goes on with what the process commits.
func (t teed) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return t.tee.Follow(ctx, partition, after)
}

// run archives until ctx ends.
func (a *Archiver) run(ctx context.Context, w *archive.Writer) {
	defer close(a.done)
	copying := Copying{Every: a.cfg.Every, OnProgress: a.progress}
	for wait := firstArchiveRetry; ; wait = min(2*wait, lastArchiveRetry) {
		begin := time.Now()
		var err error
		if w == nil {
			w, err = OpenFor(ctx, a.cfg.Dir, a.cfg.Log, a.cfg.Limits)
		}
		if err == nil {
			err = Follow(ctx, teed{a.cfg.Log, a.tee}, w, copying)
			if e := w.Close(); err == nil {
				err = e
			}
			w = nil
		}
		if ctx.Err() != nil {
			a.fail(err)
			return
		}
		if time.Since(begin) > lastArchiveRetry {
			wait = firstArchiveRetry // it went well for a while
		}
		a.fail(err)
		a.cfg.Logger.Error("nothing is archived at present; it is tried again", "archive", a.cfg.Dir, "in", wait, "reason", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (a *Archiver) fail(err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err.Error()
	a.signal()
}

// Stats is how far the archive has come.
func (a *Archiver) Stats() ArchiverStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := ArchiverStats{Dir: a.cfg.Dir, Archived: make(map[int]uint64, len(a.parts)), Error: a.failure}
	var oldest time.Time
	for i, p := range a.parts {
		s.Archived[i] = p.synced
		if p.committed > p.synced {
			s.Behind += p.committed - p.synced
		}
		if !p.since.IsZero() && (oldest.IsZero() || p.since.Before(oldest)) {
			oldest = p.since
		}
	}
	if !oldest.IsZero() {
		s.Lag = time.Since(oldest).Seconds()
	}
	return s
}

// Close archives what was offered before it was called, as far as ctx allows, and
// ends. The error says that the archive is not complete.
func (a *Archiver) Close(ctx context.Context) error {
	waited := a.drain(ctx)
	a.stop()
	select {
	case <-a.done:
	case <-ctx.Done():
		return fmt.Errorf("end the archive: %w", context.Cause(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != "" {
		return fmt.Errorf("end the archive: it lacks the last events, and takes them up at the next start: %s", a.failure)
	}
	return waited
}

// drain waits until all that is stored has been handed to the archive's writer.
func (a *Archiver) drain(ctx context.Context) error {
	for {
		a.mu.Lock()
		over := a.failure != ""
		if !over {
			over = true
			for _, p := range a.parts {
				over = over && p.added >= p.committed
			}
		}
		moved := a.moved
		a.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-moved:
		case <-a.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("end the archive: it is not complete, the rest follows at the next start: %w", context.Cause(ctx))
		}
	}
}
