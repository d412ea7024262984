package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
)

// Fleet is the accounts and the way to have something judged about them;
// [command.Set] is one.
type Fleet interface {
	// Owns says whether this process writes a partition.
	Owns(partition int) bool
	// Owned calls f with the accounts of the partitions that it writes.
	Owned(ctx context.Context, f func(partition int, a *domain.Account)) error
	// Account is one of these accounts as it is now, nil when there is none.
	Account(ctx context.Context, id domain.AccountID) (*domain.Account, error)
	// Submit has a trigger judged; see [command.Set.Submit].
	Submit(t domain.Trigger, done func(command.Answer)) error
}

var _ Fleet = (*command.Set)(nil)

// Config is what a Presence needs. Fleet, Machines and Partitions are required.
type Config struct {
	Fleet      Fleet
	Machines   *machine.Registry
	Partitions int            // of the fleet
	Blobs      eventlog.Blobs // keeps which sources have been workers; nil: that does not outlive the process

	Beat         time.Duration // between two beats of a worker (default 10 s)
	RecoverAfter time.Duration // see the package comment (default 30 s)
	Parallel     int           // triggers that are under way at once (default 256)

	// Hearing says whether what workers say can reach this process; nil: always.
	Hearing func() bool
	Logger  *slog.Logger // default: discarded
}

func (c Config) withDefaults() (Config, error) {
	if c.Fleet == nil || c.Machines == nil || c.Partitions <= 0 {
		return c, errors.New("presence: Fleet, Machines and Partitions are required")
	}
	if c.Beat < 0 || c.RecoverAfter < 0 || c.Parallel < 0 {
		return c, errors.New("presence: Beat, RecoverAfter and Parallel are not negative")
	}
	if c.Beat == 0 {
		c.Beat = 10 * time.Second
	}
	if c.RecoverAfter == 0 {
		c.RecoverAfter = 30 * time.Second
	}
	if c.Parallel == 0 {
		c.Parallel = 256
	}
	if c.Hearing == nil {
		c.Hearing = func() bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

var errTooMany = &bus.Error{
	Code: http.StatusServiceUnavailable, Title: "too many workers",
	Detail: fmt.Sprintf("%d workers live, which is as many as can be known", maxWorkers), Retryable: true,
}

// Presence follows the workers. Start it once; Stop waits for all it does.
type Presence struct {
	cfg  Config
	log  *slog.Logger
	walk walker
	room chan struct{} // holds one token for each trigger under way

	mu      sync.Mutex // guards what follows
	roster  *roster
	lanes   map[string]*lane
	owned   []bool    // by partition: its accounts have been looked at
	stored  uint64    // the roster's news of which the known workers were stored
	storeAt time.Time // when follow may try to store them

	storing sync.Mutex // held while they are stored; taken before mu

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a Presence that has not started.
func New(cfg Config) (*Presence, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Presence{
		cfg: cfg, log: cfg.Logger, room: make(chan struct{}, cfg.Parallel), lanes: map[string]*lane{}, owned: make([]bool, cfg.Partitions),
		roster: newRoster(cfg.Beat, cfg.RecoverAfter, time.Now()),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.walk = walker{ctx: p.ctx, fleet: cfg.Fleet}
	return p, nil
}

// Start reads which workers are known, looks at the accounts, and follows what
// is heard from now on, and what is not.
func (p *Presence) Start(ctx context.Context) error {
	if p.cfg.Blobs != nil {
		workers, err := loadKnown(ctx, p.cfg.Blobs)
		if ctx.Err() != nil {
			return fmt.Errorf("start presence: %w", context.Cause(ctx))
		}
		if err != nil {
			p.log.Warn("it is not known which sources have been workers; accounts of those that do not beat will be marked unverified instead of being recovered", "error", err)
		}
		now := time.Now()
		for _, w := range workers {
			p.roster.expect(w.Name, w.Boot, w.Seen, now)
		}
	}
	if err := p.take(ctx, p.newlyOwned(), true); err != nil {
		return fmt.Errorf("start presence: %w", err)
	}
	p.wg.Go(p.follow)
	return nil
}

// Stop ends everything; triggers that were submitted may still be judged. It
// returns when all has ended, or with ctx.
func (p *Presence) Stop(ctx context.Context) error {
	if err := p.store(ctx); err != nil {
		p.log.Warn("the known workers were not stored", "error", err)
	}
	p.cancel()
	done := make(chan struct{})
	go func() { // ends with the last of them
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop presence: %w", context.Cause(ctx))
	}
}

// follow is the goroutine that notices silence, and partitions that come and go.
func (p *Presence) follow() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := time.Duration(0)
	for {
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			return
		}
		if fresh := p.newlyOwned(); len(fresh) > 0 {
			p.wg.Go(func() {
				if err := p.take(p.ctx, fresh, false); err != nil && p.ctx.Err() == nil {
					p.log.Error("the accounts of new partitions were not looked at", "partitions", fresh, "error", err)
				}
			})
		}
		pause = p.lookAround(pause)
		timer.Reset(pause)
	}
}

// lookAround acts on what has become due and returns when to do so again.
func (p *Presence) lookAround(pause time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.act(p.roster.look(now, pause, !p.cfg.Hearing()))
	if p.roster.news != p.stored && !now.Before(p.storeAt) {
		p.storeAt = now.Add(storeAgain)
		p.wg.Go(func() { p.storeSoon(p.ctx) })
	}
	pause = min(p.cfg.Beat/4, time.Second)
	if at, ok := p.roster.next(); ok {
		pause = min(pause, max(at.Sub(now), time.Millisecond))
	}
	return pause
}

// newlyOwned are the partitions that were taken over since it was last called.
func (p *Presence) newlyOwned() (fresh []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.owned {
		owns := p.cfg.Fleet.Owns(i)
		if owns && !p.owned[i] {
			fresh = append(fresh, i)
		}
		p.owned[i] = owns
	}
	return fresh
}

// ownsAny says whether a partition is this process's.
func (p *Presence) ownsAny() bool {
	for i := range p.cfg.Partitions {
		if p.cfg.Fleet.Owns(i) {
			return true
		}
	}
	return false
}

// take looks at the accounts of partitions that were taken over.
func (p *Presence) take(ctx context.Context, partitions []int, first bool) error {
	fresh := make([]bool, p.cfg.Partitions)
	for _, i := range partitions {
		fresh[i] = true
	}
	var moving []*domain.Account
	sources, workers := map[string]bool{}, map[string]bool{}
	err := p.cfg.Fleet.Owned(ctx, func(partition int, a *domain.Account) {
		if !fresh[partition] || a.Forgotten {
			return
		}
		sources[a.Source] = true
		if stands(a, machine.Unvouched) { // only a worker's silence sets it
			workers[a.Source] = true
		}
		if p.moves(a) {
			moving = append(moving, a)
		}
	})
	if err != nil {
		return fmt.Errorf("look at the accounts: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for name := range workers {
		p.roster.expect(name, "", now, now)
	}
	if first && len(partitions) == p.cfg.Partitions {
		p.roster.prune(sources, now)
	}
	p.act(p.roster.take(moving, now))
	return nil
}

// storeSoon is store whose failure is only told: it is tried again.
func (p *Presence) storeSoon(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, storeWithin, fmt.Errorf("not stored within %v", storeWithin))
	defer cancel()
	if err := p.store(ctx); err != nil && p.ctx.Err() == nil {
		p.log.Warn("the known workers were not stored; it is tried again", "error", err)
	}
}

// storeWithin bounds one attempt to store the known workers; storeAgain is the
// least time between two that nobody waits for.
const (
	storeWithin = 5 * time.Second
	storeAgain  = 5 * time.Second
)

// store stores the known workers if there is news of them. Callers that come
// while others wait are served by one store.
func (p *Presence) store(ctx context.Context) error {
	if p.cfg.Blobs == nil {
		return nil
	}
	p.storing.Lock()
	defer p.storing.Unlock()
	p.mu.Lock()
	news, old, ours := p.roster.news, p.stored, p.roster.known()
	p.mu.Unlock()
	if news == old {
		return nil
	}
	theirs, err := loadKnown(ctx, p.cfg.Blobs)
	if err != nil {
		p.log.Debug("the stored workers cannot be read and are replaced", "error", err)
	}
	if err := storeKnown(ctx, p.cfg.Blobs, merge(ours, theirs, time.Now())); err != nil {
		return err
	}
	p.mu.Lock()
	p.stored = news
	p.mu.Unlock()
	return nil
}
