package app

import (
	"context"
	"time"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// judged are the writers, with the spans of triggers if there are to be any.
func (a *App) judged() interface {
	Submit(t domain.Trigger, done func(command.Answer)) error
	Do(ctx context.Context, t domain.Trigger) command.Answer
	Look(id domain.AccountID) (l command.Look, ok bool, err error)
	Accounts(ctx context.Context, f func(*domain.Account)) (map[int]uint64, error)
} {
	if a.tracer == nil {
		return a.set
	}
	return a.tracer.Judged(a.set)
}

// triedAlert is what is called after each try of an alert.
func (a *App) triedAlert() func(d *alert.Delivery, began time.Time, r alert.Result) {
	if a.tracer == nil {
		return nil
	}
	return a.tracer.Tried
}

// closeTracer sends the last spans. Whoever collects them may be gone, which is no
// reason to end with an error.
func (a *App) closeTracer(ctx context.Context) error {
	if err := a.tracer.Close(ctx); err != nil {
		a.log.Warn("the last spans were not sent", "error", err)
	}
	return nil
}
