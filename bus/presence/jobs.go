package presence

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// The triggers that presence gives.
const (
	vouchLost     = "vouch_lost"
	vouchRestored = "vouch_restored"
	recoverWord   = "recover"
)

// job is one trigger for each of many accounts.
type job struct {
	action
	turn   *turn         // nil: its cause stands for as long as the process
	listed chan struct{} // closed once its accounts are found, or will not be
}

// turn is a stretch of time in which a worker was there, or was not. What was
// to be done in it is left undone when it is over.
type turn struct {
	up   bool
	over atomic.Bool
}

// lane is the jobs of one worker. They run one after the other, so that one that
// takes back what another does finds all that the other has done.
type lane struct {
	turn *turn
	jobs []*job // that wait
}

// act starts what follows, and returns the first of its jobs that concern a
// worker, nil if there is none. p.mu is held.
func (p *Presence) act(todo []action) (first *job) {
	if p.ctx.Err() != nil {
		return nil
	}
	for i, a := range todo {
		if i == 0 || a.kind != restore { // that a new run is heard goes without saying
			p.tell(a)
		}
		j := &job{action: a, listed: make(chan struct{})}
		if a.kind == startup {
			close(j.listed)
			p.wg.Go(func() { p.run(j, a.accounts) })
			continue
		}
		p.enqueue(j)
		if first == nil {
			first = j
		}
	}
	return first
}

// tell logs what an operator should know as soon as it is known.
func (p *Presence) tell(a action) {
	switch a.kind {
	case lose:
		p.log.Warn("a worker is gone; its accounts may not send", "worker", a.worker, "state", string(p.roster.workers[a.worker].state))
	case reboot:
		p.log.Info("a worker begins a new run; accounts that it had before are recovered", "worker", a.worker, "boot", p.roster.workers[a.worker].boot)
	case restore:
		p.log.Info("a worker is heard", "worker", a.worker)
	}
}

// enqueue puts a job into its worker's lane. What waits there for the opposite
// is dropped, and what runs ends.
func (p *Presence) enqueue(j *job) {
	l, running := p.lanes[j.worker]
	if !running {
		l = &lane{}
		p.lanes[j.worker] = l
	}
	if l.turn == nil || l.turn.up != j.kind.up() {
		if l.turn != nil {
			l.turn.over.Store(true)
		}
		for _, old := range l.jobs {
			close(old.listed)
		}
		l.turn, l.jobs = &turn{up: j.kind.up()}, nil
	}
	j.turn = l.turn
	l.jobs = append(l.jobs, j)
	if !running {
		p.wg.Go(func() { p.drain(j.worker, l) })
	}
}

// drain runs a lane's jobs until there are none.
func (p *Presence) drain(worker string, l *lane) {
	for {
		p.mu.Lock()
		if len(l.jobs) == 0 {
			delete(p.lanes, worker)
			p.mu.Unlock()
			return
		}
		j := l.jobs[0]
		l.jobs = l.jobs[1:]
		p.mu.Unlock()
		accounts, err := p.walk.bySource(worker)
		close(j.listed)
		if err != nil { // the process ends
			continue
		}
		p.run(j, accounts)
	}
}

// run gives the job's trigger to each of the accounts that it is for.
func (p *Presence) run(j *job, accounts []*domain.Account) {
	begin := time.Now()
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	for _, a := range accounts {
		if _, ok := p.trigger(j, a, a); !ok {
			continue
		}
		if !p.enter(j) {
			break
		}
		wg.Go(func() {
			defer func() { <-p.room }()
			switch err := p.settle(j, a); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, errPassed) && failed.Add(1) == 1:
				p.log.Error("an account was not told about its worker", "account", a.ID, "worker", a.Source, "trigger", j.kind.trigger(), "error", err)
			}
		})
	}
	wg.Wait()
	level := slog.LevelInfo
	if failed.Load() > 0 {
		level = slog.LevelError
	}
	if done.Load()+failed.Load() > 0 {
		p.log.Log(context.Background(), level, "accounts told", "trigger", j.kind.trigger(), "worker", j.worker,
			"accounts", done.Load(), "failed", failed.Load(), "took", time.Since(begin).Round(time.Millisecond))
	}
}

// enter waits for room for one more trigger; false: there is no more need.
func (p *Presence) enter(j *job) bool {
	select {
	case p.room <- struct{}{}:
	case <-p.ctx.Done():
		return false
	}
	if !p.stands(j) {
		<-p.room
		return false
	}
	return true
}

// stands says whether the job's cause still holds.
func (p *Presence) stands(j *job) bool {
	return p.ctx.Err() == nil && (j.turn == nil || !j.turn.over.Load())
}

// errPassed says that there was nothing left to tell an account.
var errPassed = errors.New("its cause has passed")

// The pauses between attempts for one account.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// settle gives an account the job's trigger, once, or finds that the account
// needs it no more. It tries for as long as the job's cause stands; the version
// that it expects keeps it from judging what it has not seen.
func (p *Presence) settle(j *job, first *domain.Account) error {
	a := first
	for pause := firstPause; ; {
		t, ok := p.trigger(j, first, a)
		if !ok || !p.stands(j) {
			return errPassed
		}
		answer := p.ask(t)
		err := answer.Err
		switch {
		case err == nil && answer.Verdict.Outcome == domain.Conflict:
		case err == nil && answer.Verdict.Outcome == domain.Invalid:
			return errors.New(answer.Verdict.Reason)
		case err == nil:
			return nil
		case errors.Is(err, command.ErrNotOwner): // whoever owns it now sees to it
			return errPassed
		case !command.Retryable(err):
			return err
		default:
			if !p.sleep(pause) {
				return errPassed
			}
			pause = min(2*pause, lastPause)
		}
		if errors.Is(err, command.ErrOverloaded) {
			continue // nothing was judged
		}
		var lookErr error
		if a, lookErr = p.cfg.Fleet.Account(p.ctx, first.ID); lookErr != nil || a == nil {
			return errPassed
		}
	}
}

// ask submits a trigger and waits for the answer, or for the end of the process.
func (p *Presence) ask(t domain.Trigger) command.Answer {
	c := make(chan command.Answer, 1)
	if err := p.cfg.Fleet.Submit(t, func(a command.Answer) { c <- a }); err != nil {
		return command.Answer{Err: err}
	}
	select {
	case a := <-c:
		return a
	case <-p.ctx.Done():
		return command.Answer{Err: command.ErrShuttingDown}
	}
}

func (p *Presence) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// trigger is what a job says to an account as it is now; false: nothing. first is
// the account as it was found.
func (p *Presence) trigger(j *job, first, a *domain.Account) (domain.Trigger, bool) {
	t := domain.Trigger{
		Account: a.ID, Name: j.kind.trigger(), Source: domain.SourceMuster, At: j.at.UnixNano(), HasAt: true, Expect: int64(a.Version),
	}
	if a.Forgotten || a.Source != first.Source {
		return t, false
	}
	unvouched := stands(a, machine.Unvouched)
	switch j.kind {
	case lose:
		_, ok := p.cfg.Machines.Get(a.Machine)
		return t, ok && !unvouched
	case restore:
		return t, unvouched
	}
	if !p.moves(a) || a.State != first.State || a.Since != first.Since || wordOf(a) != wordOf(first) {
		return t, false
	}
	switch j.kind {
	case reboot:
		return t, true
	case await:
		return t, unvouched
	case awaitUp:
		return t, unvouched && p.up(a)
	}
	p.mu.Lock()
	heard, known := p.roster.heardSince(a.Source, j.since)
	p.mu.Unlock()
	t.NotWorker = !known
	return t, !heard && (known || !stands(a, machine.Unverified))
}

// trigger is the name of the trigger that an action is about.
func (k kind) trigger() string {
	switch k {
	case lose:
		return vouchLost
	case restore:
		return vouchRestored
	default:
		return recoverWord
	}
}

// word is the last thing that an account's source has said.
type word struct{ at, epoch, seq int64 }

func wordOf(a *domain.Account) word {
	w := word{epoch: a.Epoch, seq: a.Seq}
	for i := range a.Sources {
		if a.Sources[i].Source == a.Source {
			w.at = a.Sources[i].At
		}
	}
	return w
}

// moves says whether recover would move the account.
func (p *Presence) moves(a *domain.Account) bool {
	m, ok := p.cfg.Machines.Get(a.Machine)
	if !ok {
		return false
	}
	_, moves := m.Recover(a.State)
	return moves
}

// up says whether the account is said to be up.
func (p *Presence) up(a *domain.Account) bool {
	m, ok := p.cfg.Machines.Get(a.Machine)
	return ok && m.Up(a.State)
}

// stands says whether a condition of that name stands.
func stands(a *domain.Account, condition string) bool {
	for i := range a.Conditions {
		if a.Conditions[i].Name == condition {
			return true
		}
	}
	return false
}
