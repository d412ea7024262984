package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// Writers are the partitions' writers of this process; [command.Set] is one.
type Writers interface {
	Look(id domain.AccountID) (l command.Look, ok bool, err error)
	Do(ctx context.Context, t domain.Trigger) command.Answer
	Accounts(ctx context.Context, f func(*domain.Account)) (map[int]uint64, error)
}

var _ Writers = (*command.Set)(nil)

// Live is the history of a running Muster. Accounts that this process writes are
// looked at and judged in memory; those of another process through Fold and Send.
type Live struct {
	Writers Writers
	// Fold folds an account's events as the log has them now; nil: it has none.
	Fold func(ctx context.Context, id domain.AccountID) (*domain.Account, error)
	// Send has a trigger judged by the process that writes its account.
	Send func(ctx context.Context, t domain.Trigger) (domain.Verdict, error)
}

var _ Ledger = (*Live)(nil)

// Account returns the account as its writer holds it, or as the log tells it.
func (l *Live) Account(ctx context.Context, id domain.AccountID) (*domain.Account, error) {
	look, _, err := l.Writers.Look(id)
	if errors.Is(err, command.ErrNotOwner) {
		return l.Fold(ctx, id)
	}
	return look.Account, err
}

// Judge has a trigger judged where its account is written. One whose record no
// log could take is invalid: to send it again would not help.
func (l *Live) Judge(ctx context.Context, t domain.Trigger) (domain.Verdict, error) {
	a := l.Writers.Do(ctx, t)
	var large *command.TooLargeError
	switch {
	case a.Err == nil:
		return a.Verdict, nil
	case errors.Is(a.Err, command.ErrNotOwner):
		v, err := l.Send(ctx, t)
		if err != nil {
			return v, fmt.Errorf("send on: %w", err)
		}
		return v, nil
	case errors.As(a.Err, &large):
		return domain.Refusal(&t, large), nil
	}
	return domain.Verdict{}, a.Err
}

// OfSource looks at all accounts of all partitions.
func (l *Live) OfSource(ctx context.Context, source string, yes func(*domain.Account) bool) ([]domain.AccountID, error) {
	var ids []domain.AccountID
	_, err := l.Writers.Accounts(ctx, func(a *domain.Account) {
		if strings.HasPrefix(string(a.ID), source+":") && !a.Forgotten && yes(a) {
			ids = append(ids, a.ID)
		}
	})
	slices.Sort(ids)
	return ids, err
}
