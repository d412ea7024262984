package presence

import (
	"cmp"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
)

// lapseBeats is how many beats in a row a worker may miss before it has lapsed.
const lapseBeats = 3

// maxWorkers bounds the names that are known; beyond, the one silent longest
// that is not live is forgotten.
const maxWorkers = 10_000

// State is what is known of a worker.
type State string

// The states of a worker.
const (
	Expected State = "expected" // known from before, not heard yet since the start
	Live     State = "live"
	Lapsed   State = "lapsed" // it has missed its beats
	Left     State = "left"   // it has said goodbye
)

// worker is what is known of one worker.
type worker struct {
	name string
	boot string // of the run that was welcomed last; "" = not known
	// state and the times below change together, in roster's methods only.
	state     State
	every     time.Duration // between two beats, as it promised
	seen      time.Time     // its last sign of life, in this run of Muster or an earlier one
	heard     bool          // in this one
	lostAt    time.Time     // when it lapses; zero: it has, or it left
	recoverAt time.Time     // when its accounts are recovered; zero: they are, or need not be
	upOnly    bool          // then only those that are still said to be up
}

// roster is the pure core: who lives, and what follows when. It has no clock;
// the times it is given never run backwards.
type roster struct {
	beat         time.Duration // the interval that workers are told
	recoverAfter time.Duration

	workers map[string]*worker
	passes  []pass
	looked  time.Time // when look was last called
	news    uint64    // counts what the known names should be stored for
}

// pass is accounts that were found when their partition was taken over.
type pass struct {
	begin    time.Time
	due      time.Time
	accounts []*domain.Account
}

// action is what follows from something that was heard, or not heard.
type action struct {
	kind     kind
	worker   string            // "" for a pass
	at       time.Time         // when it was due
	since    time.Time         // of a pass: when it began
	accounts []*domain.Account // of a pass
}

type kind string

const (
	lose    kind = "lose"    // the worker's accounts lose their voucher
	restore kind = "restore" // and get it back
	await   kind = "await"   // those still without one are recovered
	awaitUp kind = "awaitUp" // … if they are said to be up
	reboot  kind = "reboot"  // all of them are: another run of the worker hosts them
	startup kind = "startup" // accounts of a partition that was taken over
)

// up says whether an action follows from a worker's being there.
func (k kind) up() bool { return k == restore || k == reboot }

func newRoster(beat, recoverAfter time.Duration, now time.Time) *roster {
	return &roster{beat: beat, recoverAfter: recoverAfter, workers: map[string]*worker{}, looked: now}
}

// expect adds a worker that is known from before: it has as long as any other
// to make itself heard.
func (r *roster) expect(name, boot string, seen, now time.Time) {
	if r.workers[name] == nil && len(r.workers) < maxWorkers {
		r.workers[name] = &worker{name: name, boot: boot, state: Expected, every: r.beat, seen: seen, lostAt: now.Add(lapseBeats * r.beat)}
	}
}

// hello hears a worker's hello. lapsed says that it had been taken for dead.
// The error is nil, or says that no more workers can be known.
func (r *roster) hello(name, boot string, again bool, now time.Time) (todo []action, lapsed bool, err error) {
	w, err := r.find(name, now)
	if err != nil {
		return nil, false, err
	}
	another := w.boot != boot && (w.boot != "" || !again)
	todo, lapsed = r.revive(w, boot, another, now)
	w.every, w.lostAt = r.beat, now.Add(lapseBeats*r.beat)
	return todo, lapsed, nil
}

// beats hears a beat. counts is false for one of a run that another run of the
// same name has followed.
func (r *roster) beats(name, boot string, every time.Duration, now time.Time) (todo []action, lapsed, counts bool) {
	w, err := r.find(name, now)
	if err != nil {
		return nil, false, false
	}
	another := w.boot != "" && w.boot != boot
	if another && w.state == Live {
		return nil, false, false
	}
	todo, lapsed = r.revive(w, boot, another, now)
	w.every = r.beat
	if every > 0 {
		w.every = min(max(every, r.beat/10), max(longestBeat, r.beat))
	}
	w.lostAt = now.Add(lapseBeats * w.every)
	return todo, lapsed, true
}

// longestBeat is the longest interval that a worker may promise.
const longestBeat = time.Minute

// revive makes a worker live and says what follows.
func (r *roster) revive(w *worker, boot string, another bool, now time.Time) (todo []action, lapsed bool) {
	was := w.state
	if was != Live || another || w.boot == "" {
		r.news++
	}
	w.boot, w.state, w.seen, w.heard, w.recoverAt = boot, Live, now, true, time.Time{}
	switch {
	case another:
		return []action{{kind: reboot, worker: w.name, at: now}, {kind: restore, worker: w.name, at: now}}, false
	case was != Live:
		return []action{{kind: restore, worker: w.name, at: now}}, was == Lapsed || was == Left
	}
	return nil, false
}

// goodbye hears a worker that ends by itself: nobody stands behind its accounts
// from now on.
func (r *roster) goodbye(name, boot string, now time.Time) []action {
	w := r.workers[name]
	if w == nil || w.boot != "" && w.boot != boot || w.state != Live && w.state != Expected {
		return nil
	}
	r.news++
	w.seen = now
	return []action{r.lapse(w, Left, now)}
}

// lapse ends a worker's being there. What an expected one left behind is
// recovered with its partition; only what has come up since is left to do.
func (r *roster) lapse(w *worker, to State, at time.Time) action {
	w.upOnly = w.state == Expected
	w.state, w.lostAt, w.recoverAt = to, time.Time{}, at.Add(r.recoverAfter)
	return action{kind: lose, worker: w.name, at: at}
}

// take notes that a partition was taken over, with the accounts that recover
// would move. A worker that is not there may have been there when they were
// last written.
func (r *roster) take(accounts []*domain.Account, now time.Time) (todo []action) {
	r.passes = append(r.passes, pass{begin: now, due: now.Add(r.recoverAfter), accounts: accounts})
	for _, w := range r.workers {
		if w.state == Lapsed || w.state == Left {
			todo = append(todo, action{kind: lose, worker: w.name, at: now})
		}
	}
	return sorted(todo)
}

// look says what has become due. pause is how long after the last look this one
// was meant to be; whatever is longer, this process was not running and could
// not hear. deaf says that it cannot hear now.
func (r *roster) look(now time.Time, pause time.Duration, deaf bool) (todo []action) {
	gap := now.Sub(r.looked)
	r.looked = now
	switch {
	case deaf:
		r.pardon(now, gap)
	case gap > pause+r.beat/2:
		r.shift(gap - pause)
	}
	for _, w := range r.workers {
		if due(w.lostAt, now) {
			r.news++
			todo = append(todo, r.lapse(w, Lapsed, w.lostAt))
		}
		if due(w.recoverAt, now) {
			a := action{kind: await, worker: w.name, at: w.recoverAt}
			if w.upOnly {
				a.kind = awaitUp
			}
			todo, w.recoverAt = append(todo, a), time.Time{}
		}
	}
	r.passes = slices.DeleteFunc(r.passes, func(p pass) bool {
		if due(p.due, now) {
			todo = append(todo, action{kind: startup, at: p.due, since: p.begin, accounts: p.accounts})
			return true
		}
		return false
	})
	return sorted(todo)
}

// due: in equal time what was heard comes first, and it has been, by now.
func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// sorted puts actions into the order in which they were due.
func sorted(todo []action) []action {
	slices.SortStableFunc(todo, func(a, b action) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.worker, b.worker))
	})
	return todo
}

// shift moves every deadline by a time in which nobody could be heard.
func (r *roster) shift(by time.Duration) {
	for _, w := range r.workers {
		if !w.lostAt.IsZero() {
			w.lostAt = w.lostAt.Add(by)
		}
		if !w.recoverAt.IsZero() {
			w.recoverAt = w.recoverAt.Add(by)
		}
	}
	for i := range r.passes {
		r.passes[i].due = r.passes[i].due.Add(by)
	}
}

// pardon is shift for a connection that is lost: workers, too, have to find
// the way back, so each has all its beats before it.
func (r *roster) pardon(now time.Time, by time.Duration) {
	r.shift(by)
	for _, w := range r.workers {
		if !w.lostAt.IsZero() {
			w.lostAt = now.Add(lapseBeats * w.every)
		}
	}
}

// next is when look has something to say, if nothing is heard before.
func (r *roster) next() (at time.Time, ok bool) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, w := range r.workers {
		earlier(w.lostAt)
		earlier(w.recoverAt)
	}
	for _, p := range r.passes {
		earlier(p.due)
	}
	return at, ok
}

// heardSince says whether the source is a worker, and whether it lives or has
// been heard since a time: then what becomes of its accounts is its own affair.
func (r *roster) heardSince(source string, since time.Time) (heard, known bool) {
	w := r.workers[source]
	return w != nil && (w.state == Live || w.heard && !w.seen.Before(since)), w != nil
}

// run names a worker's run and says whether it lives.
type run struct {
	boot string
	live bool
}

func (r *roster) bootOf(name string) run {
	w := r.workers[name]
	if w == nil {
		return run{}
	}
	return run{w.boot, w.state == Live}
}

// find returns the worker of a name, which is known from now on.
func (r *roster) find(name string, now time.Time) (*worker, error) {
	if w := r.workers[name]; w != nil {
		return w, nil
	}
	if len(r.workers) >= maxWorkers && !r.forgetOne() {
		return nil, errTooMany
	}
	w := &worker{name: name, state: Expected, every: r.beat, seen: now}
	r.workers[name] = w
	return w, nil
}

// forgetOne forgets the worker that has been silent longest; false: all live.
func (r *roster) forgetOne() bool {
	var oldest *worker
	for _, w := range r.workers {
		if w.state != Live && (oldest == nil || w.seen.Before(oldest.seen)) {
			oldest = w
		}
	}
	if oldest == nil {
		return false
	}
	delete(r.workers, oldest.name)
	return true
}

// prune forgets workers that are no account's source and were not heard for long.
func (r *roster) prune(sources map[string]bool, now time.Time) {
	for name, w := range r.workers {
		if !sources[name] && now.Sub(w.seen) >= forgetAfter {
			delete(r.workers, name)
			r.news++
		}
	}
}

// known is what is to be stored.
func (r *roster) known() []knownWorker {
	out := make([]knownWorker, 0, len(r.workers))
	for _, w := range r.workers {
		out = append(out, knownWorker{Name: w.name, Boot: w.boot, Seen: w.seen})
	}
	return out
}
