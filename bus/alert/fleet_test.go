package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The keys of the tests.
const (
	keyA = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	keyB = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func secrets(t testing.TB, texts ...string) (list []Secret) {
	t.Helper()
	for _, text := range texts {
		s, err := ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// endpoint is an endpoint that all is told to.
func endpoint(t testing.TB, name string) Endpoint {
	return Endpoint{Name: name, URL: "https://" + name + ".example/hook", Secrets: secrets(t, keyA)}
}

// memJournal keeps the records of a journal in memory, encoded as they are in
// JetStream.
type memJournal struct {
	records [][]byte
	every   int // compacts after so many records; 0 = never
}

func (j *memJournal) load(context.Context) (*state, error) {
	l := loader{st: newState()}
	for _, r := range j.records {
		if err := l.record(r); err != nil {
			return nil, err
		}
	}
	return l.st, nil
}

func (j *memJournal) append(_ context.Context, changes []change, st *state) error {
	if err := j.put(changes, false); err != nil {
		return err
	}
	if j.every == 0 || len(j.records) < j.every {
		return nil
	}
	first := len(j.records)
	if err := j.put(st.dump(), true); err != nil {
		return err
	}
	j.records = j.records[first:]
	return nil
}

func (j *memJournal) put(changes []change, snapshot bool) error {
	groups, err := split(changes)
	if err != nil {
		return err
	}
	for i, g := range groups {
		r := record{Version: recordVersion, Changes: g}
		if snapshot {
			r.Part = &part{i, len(groups)}
		}
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		j.records = append(j.records, data)
	}
	return nil
}

// memActions is an operators' log in memory.
type memActions struct {
	mu   sync.Mutex
	list []operator.Action
	more chan struct{}
}

func (l *memActions) append(a operator.Action) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.ID = fmt.Sprint("act-", len(l.list))
	l.list = append(l.list, a)
	close(l.more)
	l.more = make(chan struct{})
}

func (l *memActions) Last(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.list)), nil
}

func (l *memActions) Follow(ctx context.Context, after uint64) iter.Seq2[operator.Entry, error] {
	return func(yield func(operator.Entry, error) bool) {
		for ctx.Err() == nil {
			l.mu.Lock()
			more, list := l.more, l.list[after:]
			l.mu.Unlock()
			for _, a := range list {
				after++
				if !yield(operator.Entry{Seq: after, Action: a}, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
			}
		}
	}
}

// try is one try that a receiver saw.
type try struct {
	at   time.Time
	took time.Duration
	Delivery
	msg  Message
	code int
}

// receivers are the other side: what they answer is a test's own doing. Every try
// is verified as a receiver would, with the library of the specification.
type receivers struct {
	t      testing.TB
	answer func(ctx context.Context, e *Endpoint, d *Delivery, nth int) Result

	mu     sync.Mutex
	tries  []try
	nth    map[string]int
	flying map[string]bool // account and endpoint
}

func (r *receivers) Send(ctx context.Context, e *Endpoint, d *Delivery) Result {
	begin := time.Now()
	r.verify(e, d, begin)
	key := e.Name + "/" + d.Account
	r.mu.Lock()
	r.nth[d.ID]++
	nth := r.nth[d.ID]
	if d.Account != "" && r.flying[key] {
		r.t.Errorf("two alerts of %s are under way at once", key)
	}
	r.flying[key] = true
	r.mu.Unlock()

	bounded, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	result := Result{Code: http.StatusNoContent}
	if r.answer != nil {
		result = r.answer(bounded, e, d, nth)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying[key] = false
	seen := try{at: begin, took: time.Since(begin), Delivery: *d, code: result.Code}
	if err := json.Unmarshal([]byte(d.Body), &seen.msg); err != nil {
		r.t.Errorf("the body of %s is not what it should be: %v", d.ID, err)
	}
	r.tries = append(r.tries, seen)
	return result
}

func (r *receivers) verify(e *Endpoint, d *Delivery, now time.Time) {
	h := http.Header{}
	if err := sign(h, e.Secrets, d, now); err != nil {
		r.t.Error(err)
	}
	hook, err := webhooks.NewWebhook(e.Secrets[0].text)
	if err == nil {
		err = hook.Verify([]byte(d.Body), h)
	}
	if err != nil {
		r.t.Errorf("the reference verifier refuses %s: %v", d.ID, err)
	}
}

// got lists the alerts that were taken, in order.
func (r *receivers) got() (list []try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.tries {
		if one.code/100 == 2 {
			list = append(list, one)
		}
	}
	return list
}

// told is got in short: "type kind account" each.
func (r *receivers) told() []string {
	var list []string
	for _, one := range r.got() {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", one.Type, one.Kind, one.Account)))
	}
	return list
}

// checkOnceAndInOrder holds that every alert was taken once, and those of one
// account in the order in which they were made.
func (r *receivers) checkOnceAndInOrder() {
	r.t.Helper()
	taken, last := map[string]int{}, map[string]uint64{}
	for _, one := range r.got() {
		if taken[one.ID]++; taken[one.ID] > 1 {
			r.t.Errorf("%s was taken %d times", one.ID, taken[one.ID])
		}
		key := one.Endpoint + "/" + one.Account
		if one.Account != "" && one.N < last[key] {
			r.t.Errorf("%s came after a later alert of %s", one.ID, key)
		}
		last[key] = one.N
	}
}

// fleet is a real write path on a log in memory, and an Engine over it.
type fleet struct {
	t       *testing.T
	log     *memlog.Log
	set     *command.Set
	journal *memJournal
	actions *memActions
	recv    *receivers
	conf    Settings

	engine *Engine
	stop   func()
}

// inFleet runs a test in a bubble with a virtual clock. Alerts are on from the start.
func inFleet(t *testing.T, conf Settings, test func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, conf)
		f.start()
		test(f)
		f.end()
	})
}

func newFleet(t *testing.T, conf Settings) *fleet {
	log := memlog.New(2)
	set, err := command.NewSet(command.Config{Log: log, Judge: domain.NewJudge(lifecycle.Registry())})
	if err != nil {
		t.Fatal(err)
	}
	for p := range log.Partitions() {
		if _, err := set.Open(context.Background(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	return &fleet{
		t: t, log: log, set: set, conf: conf, journal: &memJournal{every: 50}, actions: &memActions{more: make(chan struct{})},
		recv: &receivers{t: t, nth: map[string]int{}, flying: map[string]bool{}},
	}
}

// start runs an Engine until halt.
func (f *fleet) start() {
	f.t.Helper()
	f.engine = newEngine(Config{
		Settings: f.conf, Log: f.log, Source: f.log, Judge: domain.NewJudge(lifecycle.Registry()), Actions: f.actions, Accounts: f.set.Accounts,
		Look: func(_ context.Context, id domain.AccountID) (*domain.Account, string, error) {
			l, _, err := f.set.Look(id)
			return l.Account, l.Damage, err
		},
	}, f.journal, f.recv, func() {})
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() { failed <- f.engine.Run(ctx) }()
	f.stop = func() {
		cancel()
		if err := <-failed; err != nil {
			f.t.Errorf("the engine ended with %v", err)
		}
	}
	synctest.Wait()
}

// halt ends the Engine, and holds that what it knew can be loaded again, from the
// journal and from a snapshot.
func (f *fleet) halt() {
	f.t.Helper()
	f.stop()
	st, err := f.journal.load(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	again := newState()
	for _, c := range st.dump() {
		again.apply(&c)
	}
	want := dumped(f.t, f.engine.core.st)
	for name, s := range map[string]*state{"the journal": st, "a snapshot": again} {
		if got := dumped(f.t, s); !slices.Equal(got, want) {
			f.t.Errorf("%s gives another state:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// dumped is a state as sorted lines.
func dumped(t testing.TB, s *state) []string {
	t.Helper()
	var lines []string
	for _, c := range s.dump() {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	slices.Sort(lines)
	return lines
}

func (f *fleet) end() {
	f.t.Helper()
	f.halt()
	if err := f.set.Close(context.Background()); err != nil {
		f.t.Error(err)
	}
	f.recv.checkOnceAndInOrder()
}

// pass lets virtual time pass.
func (f *fleet) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// say has a trigger judged, which must be applied or a noop.
func (f *fleet) say(account, trigger string, change ...func(*domain.Trigger)) {
	f.t.Helper()
	trig := domain.Trigger{Account: domain.AccountID(account), Name: trigger, Source: "waha-1", Expect: domain.NoExpect}
	for _, c := range change {
		c(&trig)
	}
	a := f.set.Do(context.Background(), trig)
	if a.Err != nil || (a.Verdict.Outcome != domain.Applied && a.Verdict.Outcome != domain.Noop) {
		f.t.Fatalf("%s of %s: %v %v (%s)", trigger, account, a.Verdict.Outcome, a.Err, a.Verdict.Reason)
	}
}

func code(c string) func(*domain.Trigger) {
	return func(t *domain.Trigger) { t.Reason.Code = c }
}

func from(source string) func(*domain.Trigger) {
	return func(t *domain.Trigger) { t.Source = source }
}

// up brings accounts to RUNNING.
func (f *fleet) up(accounts ...string) {
	f.t.Helper()
	for _, a := range accounts {
		f.say(a, "adopt", func(t *domain.Trigger) { t.Data = domain.Data{"state": "RUNNING"} })
	}
}

// counts are what the Engine has counted.
func (f *fleet) counts() Counts {
	f.t.Helper()
	l, err := f.engine.List(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	return l.Counts
}

func (f *fleet) wantTold(want ...string) {
	f.t.Helper()
	synctest.Wait()
	if got := f.recv.told(); !slices.Equal(got, want) {
		f.t.Errorf("told:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
