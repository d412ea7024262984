package app

import (
	"context"
	"iter"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/domain"
)

// operatorTriggered: somebody had a trigger judged that only operators may publish.
const operatorTriggered operator.Name = "trigger"

// audited is a Sender that keeps who, by the token of the HTTP request, has
// published what no connector may: the account's history has only that a user did.
type audited struct {
	*bus.Client
	app *App
}

var _ httpapi.Sender = audited{}

// Send is the client's, with what an operator did kept.
func (s audited) Send(ctx context.Context, t domain.Trigger) (bus.Reply, error) {
	r, err := s.Client.Send(ctx, t)
	s.note(ctx, &t, &r, err)
	return r, err
}

// SendMany is the client's, with what an operator did kept.
func (s audited) SendMany(ctx context.Context, triggers iter.Seq[domain.Trigger], window int, each func(bus.Sent) bool) error {
	return s.Client.SendMany(ctx, triggers, window, func(sent bus.Sent) bool {
		s.note(ctx, &sent.Trigger, &sent.Reply, sent.Err)
		return each(sent)
	})
}

// note keeps one action. It was judged already, so a failure to keep it is told
// in the log and not to the caller.
func (s audited) note(ctx context.Context, t *domain.Trigger, r *bus.Reply, err error) {
	who := auth.From(ctx)
	if who == nil || err != nil || !r.Outcome.Appended() || !bus.OperatorsOnly(t) {
		return
	}
	target := map[string]string{operator.Account: string(t.Account), "trigger": t.Name, "outcome": r.Outcome.String()}
	if err := s.app.audit(context.WithoutCancel(ctx), operator.Action{By: who.Name, Action: operatorTriggered, Target: target, Reason: t.Reason.Text}); err != nil {
		s.app.log.Error("what an operator did is not in the operators' log", "by", who.Name, "trigger", t.Name, "error", err)
	}
}
