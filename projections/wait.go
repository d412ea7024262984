package projections

import (
	"context"
	"fmt"
	"math"
)

// noWaiter is the nearest sequence waited for when nobody waits.
const noWaiter = math.MaxUint64

// WaitFor returns when the views hold the record with this sequence: a caller
// that has just written waits for its own write. It returns ctx's error when
// ctx ends first, and ErrEnded when Run does.
func (r *Runner) WaitFor(ctx context.Context, partition int, seq uint64) error {
	if partition < 0 || partition >= len(r.parts) {
		return fmt.Errorf("wait for partition %d: there are %d", partition, len(r.parts))
	}
	p := r.parts[partition]
	if p.position.Load() >= seq {
		return nil
	}
	reached := p.addWaiter(seq)
	defer p.removeWaiter(reached)
	if at := p.position.Load(); at >= seq {
		return nil // it came while we entered ourselves
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for sequence %d of partition %d: %w", seq, partition, context.Cause(ctx))
	case <-r.ended:
		if p.position.Load() >= seq {
			return nil
		}
		return fmt.Errorf("wait for sequence %d of partition %d: %w", seq, partition, ErrEnded)
	}
}

// WaitAll is WaitFor for each of the partitions.
func (r *Runner) WaitAll(ctx context.Context, asOf map[int]uint64) error {
	for partition, seq := range asOf {
		if err := r.WaitFor(ctx, partition, seq); err != nil {
			return err
		}
	}
	return nil
}

func (p *runnerPart) addWaiter(seq uint64) chan struct{} {
	reached := make(chan struct{})
	p.waitMu.Lock()
	defer p.waitMu.Unlock()
	p.waiters[reached] = seq
	p.nearest.Store(min(p.nearest.Load(), seq))
	return reached
}

func (p *runnerPart) removeWaiter(reached chan struct{}) {
	p.waitMu.Lock()
	defer p.waitMu.Unlock()
	delete(p.waiters, reached)
	p.updateNearest()
}

// wake closes what waits for position or less.
func (p *runnerPart) wake(position uint64) {
	p.waitMu.Lock()
	defer p.waitMu.Unlock()
	for reached, seq := range p.waiters {
		if seq <= position {
			delete(p.waiters, reached)
			close(reached)
		}
	}
	p.updateNearest()
}

// updateNearest recomputes the lowest sequence waited for; the caller holds waitMu.
func (p *runnerPart) updateNearest() {
	nearest := uint64(noWaiter)
	for _, seq := range p.waiters {
		nearest = min(nearest, seq)
	}
	p.nearest.Store(nearest)
}
