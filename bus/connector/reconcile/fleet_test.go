package reconcile

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// fleet is a history in memory under the real judge, with a clock.
type fleet struct {
	t     *testing.T
	judge *domain.Judge

	mu       sync.Mutex
	now      int64
	accounts map[domain.AccountID]*domain.Account
	events   []*domain.Event
	fail     error                       // of every Judge
	before   func(f *fleet, name string) // before a trigger of a poll is judged; the lock is not held
	looked   map[domain.AccountID]int    // how often an account was asked for
	foreign  map[domain.AccountID]bool   // accounts of another process: not in OfSource
}

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func newFleet(t *testing.T) *fleet {
	return &fleet{
		t: t, judge: domain.NewJudge(lifecycle.Registry()), now: noon.UnixNano(),
		accounts: map[domain.AccountID]*domain.Account{}, looked: map[domain.AccountID]int{}, foreign: map[domain.AccountID]bool{},
	}
}

func (f *fleet) Account(_ context.Context, id domain.AccountID) (*domain.Account, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked[id]++
	if a := f.accounts[id]; a != nil {
		return a.Clone(), nil
	}
	return nil, nil
}

func (f *fleet) Judge(_ context.Context, t domain.Trigger) (domain.Verdict, error) {
	if f.before != nil {
		f.before(f, t.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return domain.Verdict{}, f.fail
	}
	return f.judged(t), nil
}

func (f *fleet) judged(t domain.Trigger) domain.Verdict {
	a := f.accounts[t.Account]
	d := f.judge.Decide(a, &t, f.now)
	if d.Event != nil {
		f.events = append(f.events, d.Event)
		if a != nil {
			a = a.Clone()
		}
		f.accounts[t.Account] = domain.Evolve(a, d.Event)
	}
	return d.Verdict
}

func (f *fleet) OfSource(_ context.Context, source string, yes func(*domain.Account) bool) ([]domain.AccountID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []domain.AccountID
	for id, a := range f.accounts {
		if strings.HasPrefix(string(id), source+":") && !a.Forgotten && !f.foreign[id] && yes(a) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// say has triggers of a webhook judged: "name" or "name{json data}".
func (f *fleet) say(id domain.AccountID, triggers ...string) {
	f.t.Helper()
	source, _, _ := strings.Cut(string(id), ":")
	for _, text := range triggers {
		name, data, _ := strings.Cut(text, "{")
		t := domain.Trigger{Account: id, Name: name, Source: source, Expect: domain.NoExpect}
		if name == "recover" {
			t.Source, t.NotWorker = domain.SourceMuster, true
		}
		if strings.HasSuffix(name, "!") {
			t.Name, t.By = strings.TrimSuffix(name, "!"), domain.ByUser
		}
		if data != "" {
			if err := json.Unmarshal([]byte("{"+data), &t.Data); err != nil {
				f.t.Fatal(err)
			}
		}
		f.mu.Lock()
		t.At, t.HasAt = f.now, true
		v := f.judged(t)
		f.mu.Unlock()
		if !v.Outcome.Appended() || v.Outcome == domain.Stale {
			f.t.Fatalf("%s of %s: %s %s", text, id, v.Outcome, v.Reason)
		}
	}
}

func (f *fleet) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Unix(0, f.now)
}

func (f *fleet) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += int64(d)
}

// since lists the events from the n-th on, as "account from -> to via trigger" or
// "account: trigger outcome", with the conditions that ended.
func (f *fleet) since(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, e := range f.events[n:] {
		line := string(e.Account) + ": " + e.Trigger + " " + e.Outcome.String()
		if e.Outcome == domain.Applied {
			line = string(e.Account) + ": " + e.From + " -> " + e.To + " via " + e.Trigger
		}
		if e.Reason.Code != "" {
			line += " (" + e.Reason.Code + ")"
		}
		for _, c := range e.Ended {
			line += " ends " + c.Name
		}
		if !strings.HasSuffix(e.Source, "/poll") {
			line += " by " + e.Source
		}
		out = append(out, line)
	}
	return out
}

func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

func (f *fleet) state(id domain.AccountID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.accounts[id]; a != nil {
		return a.State
	}
	return ""
}

const theKey = "poll-key-s3cret"

// server is a WAHA and an Evolution with one list and single states.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	list   string
	status int               // of the list; 0 = 200
	states map[string]string // instance → state in memory; none: 404
	asked  []string          // paths, in order
	hold   func()            // called before the list is answered
}

func newServer(t *testing.T) *server {
	s := &server{states: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.RequestURI())
		list, status, hold := s.list, s.status, s.hold
		s.mu.Unlock()
		if r.Method != http.MethodGet || r.Header.Get("X-Api-Key") != theKey && r.Header.Get("apikey") != theKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if name, ok := strings.CutPrefix(r.URL.Path, "/instance/connectionState/"); ok {
			s.mu.Lock()
			state := s.states[name]
			s.mu.Unlock()
			if state == "" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte(`{"instance":{"instanceName":"` + name + `","state":"` + state + `"}}`))
			return
		}
		if hold != nil {
			hold()
		}
		if status != 0 {
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte(list))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) tell(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
}

// set says how the list is answered: with which status (0: 200), and what is done
// before.
func (s *server) set(status int, hold func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.hold = status, hold
}

func (s *server) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func reconciler(t *testing.T, f *fleet, s *server, kind, name string, change func(c *Config)) *Reconciler {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	cfg := Config{
		Ledger: f, Judge: f.judge, Now: f.clock, Transport: tr, PerSecond: 100000,
		Sources: []*connector.Source{{Kind: kind, Name: name, Poll: &connector.Poll{URL: s.URL, Key: theKey, Every: 5 * time.Minute}}},
	}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustPoll(t *testing.T, r *Reconciler, name string) Report {
	t.Helper()
	report, err := r.Poll(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
