package app

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
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

// note keeps one action.
func (s audited) note(ctx context.Context, t *domain.Trigger, r *bus.Reply, err error) {
	if who := auth.From(ctx); who != nil && err == nil && bus.OperatorsOnly(t) {
		s.app.noteTrigger(context.WithoutCancel(ctx), who, t, r.Outcome)
	}
}

// noteTrigger keeps that an operator has published a trigger. It was judged
// already, so a failure to keep it is told in the log and not to the caller.
func (a *App) noteTrigger(ctx context.Context, who *auth.Identity, t *domain.Trigger, outcome domain.Outcome) {
	if !outcome.Appended() {
		return
	}
	target := map[string]string{operator.Account: string(t.Account), "trigger": t.Name, "outcome": outcome.String()}
	if err := a.audit(ctx, operator.Action{By: who.Name, Action: operatorTriggered, Target: target, Reason: t.Reason.Text}); err != nil {
		a.log.Error("what an operator did is not in the operators' log", "by", who.Name, "trigger", t.Name, "error", err)
	}
}

// noteWithin bounds how long the verdict of an operator's trigger waits until it is
// kept who has published it.
const noteWithin = 5 * time.Second

// admit says whether a trigger may be judged that came on the bus from somebody
// whom the subject names, and keeps who it was if only an operator may say it.
func (a *App) admit(s bus.Speaker, t *domain.Trigger) (kept func(domain.Verdict), err error) {
	who, err := a.door.guard.MayTell(s, t)
	if err != nil || who == nil || !bus.OperatorsOnly(t) {
		return nil, err
	}
	trigger := *t
	return func(v domain.Verdict) {
		ctx, cancel := context.WithTimeout(context.Background(), noteWithin)
		defer cancel()
		a.noteTrigger(ctx, who, &trigger, v.Outcome)
	}, nil
}

// nameless is who has done what nobody gives a name for.
const nameless = "without a name"

// mostAudited is how much of a question is kept.
const mostAudited = 1 << 10

// audited has what operators ask to be done kept in their log, once it is done:
// the questions that need an operator, but for those that are kept by what they do
// themselves.
func (a *App) audited(queries []query.Query) []query.Query {
	for i := range queries {
		q := &queries[i]
		if need, _ := auth.QueryNeeds(q.Name); need != auth.Operator || q.Name == api.ActQuery {
			continue
		}
		do, action := q.Handle, operator.Name(strings.ReplaceAll(q.Name, ".", "_"))
		q.Handle = func(ctx context.Context, req json.RawMessage) (any, error) {
			answer, err := do(ctx, req)
			if err == nil {
				done := operator.Action{By: doneBy(ctx, nameless), Action: action, Target: map[string]string{"request": string(req[:min(len(req), mostAudited)])}}
				if err := a.audit(context.WithoutCancel(ctx), done); err != nil {
					a.log.Error("what an operator did is not in the operators' log", "by", done.By, "action", action, "error", err)
				}
			}
			return answer, err
		}
	}
	return queries
}

// doneBy is who does what a question asks for: the name of the token, whatever the
// question says, when it came with one.
func doneBy(ctx context.Context, said string) string {
	if who := auth.From(ctx); who != nil && who.Token != "" {
		return who.Name
	}
	return said
}
