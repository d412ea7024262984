package connectortest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

var _ hub.Ledger = (*Ledger)(nil)

// Ledger is a history in memory that may be used from many goroutines, judged by
// the real judge at each trigger's own time. A test can put faults into it.
type Ledger struct {
	// Before, when set, runs before a trigger is judged; its error is the answer.
	Before func(*domain.Trigger) error
	// Looked, when set, runs after each look at an account, and may Put.
	Looked func()

	mu       sync.Mutex
	judge    *domain.Judge
	accounts map[domain.AccountID]*domain.Account
	events   []*domain.Event
}

// NewLedger returns an empty history.
func NewLedger() *Ledger {
	return &Ledger{judge: domain.NewJudge(lifecycle.Registry()), accounts: map[domain.AccountID]*domain.Account{}}
}

// Account returns a copy of the account.
func (l *Ledger) Account(_ context.Context, id domain.AccountID) (*domain.Account, error) {
	a := l.Peek(id)
	if l.Looked != nil {
		l.Looked()
	}
	return a, nil
}

// Peek is Account without Looked.
func (l *Ledger) Peek(id domain.AccountID) *domain.Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[id]; a != nil {
		return a.Clone()
	}
	return nil
}

// Judge judges a trigger and keeps what came of it.
func (l *Ledger) Judge(_ context.Context, t domain.Trigger) (domain.Verdict, error) {
	if l.Before != nil {
		if err := l.Before(&t); err != nil {
			return domain.Verdict{}, err
		}
	}
	return l.Put(t), nil
}

// Put is Judge without Before.
func (l *Ledger) Put(t domain.Trigger) domain.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.judge.Decide(l.accounts[t.Account], &t, t.At)
	if d.Event != nil {
		l.accounts[t.Account] = domain.Evolve(l.accounts[t.Account], d.Event)
		l.events = append(l.events, d.Event)
	}
	return d.Verdict
}

// OfSource looks at all accounts.
func (l *Ledger) OfSource(_ context.Context, source string, yes func(*domain.Account) bool) (ids []domain.AccountID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.accounts {
		if strings.HasPrefix(string(id), source+":") && yes(a) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Accounts lists the ids of all accounts, sorted.
func (l *Ledger) Accounts() (ids []domain.AccountID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.accounts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Events lists what was appended.
func (l *Ledger) Events() []*domain.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}
