package hub

import (
	"context"

	"github.com/musterhq/muster/domain"
)

// Ledger is the history as the hub needs it. It is used from many goroutines.
type Ledger interface {
	// Account returns the fold of the account's events, nil when it has none. It
	// must not be changed.
	Account(ctx context.Context, id domain.AccountID) (*domain.Account, error)
	// Judge has a trigger judged. With a nil error the verdict is durable; any
	// error means that it may not be, and that the same may be sent again.
	Judge(ctx context.Context, t domain.Trigger) (domain.Verdict, error)
	// OfSource lists the accounts whose ids begin with the source's name and a
	// colon and to which yes says so, in the order of their ids.
	OfSource(ctx context.Context, source string, yes func(*domain.Account) bool) ([]domain.AccountID, error)
}
