package telemetry

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Writers measures the writers: it is their command.Observer. Make it with New.
type Writers struct {
	group   prometheus.Histogram
	append  map[string]prometheus.Observer
	answers [domain.Invalid + 1]prometheus.Observer
	failed  prometheus.Observer // answers without a verdict
	fsync   prometheus.Histogram

	passes *passes // nil: nobody asks for them

	mu    sync.Mutex
	last  map[int]uint64    // by partition
	taken map[int]time.Time // snapshots, by partition
}

var _ command.Observer = (*Writers)(nil)

// The results of an append.
const (
	stored   = "stored"
	conflict = "conflict"
	refused  = "refused"
	unknown  = "unknown"
	failed   = "failed"
)

func newWriters(reg prometheus.Registerer) *Writers {
	w := &Writers{
		group: prometheus.NewHistogram(groupSize), fsync: prometheus.NewHistogram(fsyncSeconds),
		append: map[string]prometheus.Observer{}, last: map[int]uint64{}, taken: map[int]time.Time{},
	}
	appends := prometheus.NewHistogramVec(appendSeconds, []string{"result"})
	answers := prometheus.NewHistogramVec(answerSeconds, []string{"outcome"})
	for _, r := range [...]string{stored, conflict, refused, unknown, failed} {
		w.append[r] = appends.WithLabelValues(r)
	}
	for o := domain.Applied; o <= domain.Invalid; o++ {
		w.answers[o] = answers.WithLabelValues(o.String())
	}
	w.failed = answers.WithLabelValues("error")
	reg.MustRegister(w.group, w.fsync, appends, answers)
	return w
}

// Group takes a group's times.
func (w *Writers) Group(g *command.Group) {
	w.group.Observe(float64(g.Records))
	w.append[resultOf(g.Err)].Observe(g.Stored.Sub(g.Judged).Seconds())
	w.mu.Lock()
	w.last[g.Partition] = g.Last
	w.mu.Unlock()
}

// resultOf names what became of a group.
func resultOf(err error) string {
	switch {
	case err == nil:
		return stored
	case errors.Is(err, eventlog.ErrConflict):
		return conflict
	case errors.Is(err, eventlog.ErrUnknown):
		return unknown
	case errors.Is(err, eventlog.ErrFailed):
		return failed
	default:
		return refused
	}
}

// Answered takes the time of one answer.
func (w *Writers) Answered(o domain.Outcome, err error, took time.Duration) {
	if err != nil || int(o) >= len(w.answers) || w.answers[o] == nil {
		w.failed.Observe(took.Seconds())
		return
	}
	w.answers[o].Observe(took.Seconds())
}

// Snapshot notes when a partition's snapshot was taken.
func (w *Writers) Snapshot(partition int, taken time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[partition] = taken
}

// keepPasses keeps the times of the barrier's passes from now on. It comes before
// the writers begin.
func (w *Writers) keepPasses() { w.passes = &passes{last: map[int]passed{}} }

func (w *Writers) positions() map[int]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.last)
}

func (w *Writers) snapshots() map[int]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.taken)
}

// barrier is what brings a group to disk, as natslog knows it.
type barrier interface {
	Pass(partition, acked int, last uint64) error
	Room(bytes int) error
}

// Barrier is a barrier whose passes are measured.
type Barrier struct {
	barrier
	w *Writers
}

// Barrier measures the passes of a barrier.
func (w *Writers) Barrier(b barrier) *Barrier { return &Barrier{barrier: b, w: w} }

// Pass is the barrier's own, with its time taken.
func (b *Barrier) Pass(partition, acked int, last uint64) error {
	began := time.Now()
	err := b.barrier.Pass(partition, acked, last)
	ended := time.Now()
	b.w.fsync.Observe(ended.Sub(began).Seconds())
	if b.w.passes != nil {
		b.w.passes.note(partition, began, ended)
	}
	return err
}
