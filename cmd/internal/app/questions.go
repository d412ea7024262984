package app

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/explain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/projections/route"
)

// questions is the table of the everyday questions.
func (a *App) questions() []query.Query {
	return []query.Query{
		{Name: api.CanQuery, Description: "May this account read, send or bulk now, in a scope? If not, why and until when", Handle: query.Of(a.can)},
		{Name: api.RouteQuery, Description: "Accounts that may be used for a send, the one used longest ago first", Handle: query.Of(a.route)},
		{Name: api.MessageQuery, Description: "One message of an account: its state and the time of each status", Handle: query.Of(a.getMessage)},
		{Name: api.MessagesQuery, Description: "A page of messages, by account and id, with filters", Handle: query.Of(a.listMessages)},
		{Name: api.ConversationQuery, Description: "One conversation: who is in charge, who waits, who has claimed what", Handle: query.Of(a.getConversation)},
		{Name: api.ConversationsQuery, Description: "A page of conversations, by account and contact, with filters", Handle: query.Of(a.listConversations)},
		{Name: api.AttentionQuery, Description: "Who needs a human: incidents, or accounts one by one", Handle: query.Of(a.listAttention)},
		{Name: api.TimelineQuery, Description: "An account's events, the last one first", Handle: query.Of(a.timeline)},
		{Name: api.WhyQuery, Description: "Where an account is and what it waits for: a sentence, and the evidence", Handle: query.Of(a.why)},
	}
}

// invalid is a request that can not be answered as it is.
func invalid(format string, args ...any) error {
	return &bus.Error{Code: http.StatusBadRequest, Title: "invalid request", Detail: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: fmt.Sprintf(format, args...)}
}

// accountID checks an account's id.
func accountID(text string) (domain.AccountID, error) {
	id, err := domain.ParseAccountID(text)
	if err != nil {
		return "", invalid("%v", err)
	}
	return id, nil
}

// limitOf checks how many rows are asked for.
func limitOf(n int) (int, error) {
	switch {
	case n < 0 || n > api.MaxLimit:
		return 0, invalid("limit is 1 to %d, not %d", api.MaxLimit, n)
	case n == 0:
		return api.DefaultLimit, nil
	}
	return n, nil
}

// A cursor is a row's key on its way to a client and back.

func cursor(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(key))
}

func keyOf(cursor string) (string, error) {
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", invalid("%q is not the next of a page", cursor)
	}
	return string(key), nil
}

// capability checks what an account is to do.
func capability(do string) error {
	if !slices.Contains(machine.Capabilities(), do) {
		return invalid("do is %q; it is one of %s", do, strings.Join(machine.Capabilities(), ", "))
	}
	return nil
}

// look returns an account as its writer holds it, which is never behind a
// verdict that was given; also one that was forgotten. When another process
// writes its partition, it is folded from the log.
func (a *App) look(ctx context.Context, id domain.AccountID) (command.Look, error) {
	l, ok, err := a.set.Look(id)
	if errors.Is(err, command.ErrNotOwner) {
		l, ok, err = a.foldLog(ctx, id)
	}
	switch {
	case err != nil:
		return l, err
	case !ok:
		return l, a.noAccount(id)
	}
	return l, nil
}

// noAccount says that there is no such account, or why there is none any more.
func (a *App) noAccount(id domain.AccountID) error {
	if a.keys != nil {
		if e, ok := a.keys.Erased(string(id)); ok {
			return notFound("account %s was erased on %s by %s: %s", id, domain.FormatTime(e.At.UnixNano()), e.By, e.Reason)
		}
	}
	return notFound("there is no account %q", id)
}

// foldLog folds an account's events as the log has them now.
func (a *App) foldLog(ctx context.Context, id domain.AccountID) (l command.Look, ok bool, err error) {
	l.Partition = eventlog.Partition(string(id), a.events.Partitions())
	for rec, err := range a.events.Account(ctx, string(id), 1) {
		if err != nil {
			return l, false, fmt.Errorf("fold account %q: %w", id, err)
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			l.Damage = fmt.Sprintf("sequence %d cannot be read: %v", rec.Seq, err)
			continue
		}
		l.Account, l.Seq = domain.Evolve(l.Account, &e), rec.Seq
	}
	return l, l.Account != nil, nil
}

func (a *App) can(ctx context.Context, r api.CanRequest) (any, error) {
	id, err := accountID(r.Account)
	if err != nil {
		return nil, err
	}
	if err := capability(r.Do); err != nil {
		return nil, err
	}
	l, err := a.look(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.Account.Forgotten {
		return nil, a.noAccount(id)
	}
	answer := api.Can{
		Account: r.Account, Do: r.Do, Scope: r.Scope, Can: true, State: l.Account.State, Since: domain.FormatTime(l.Account.Since),
		Blocks: []domain.ConditionView{}, AsOf: api.AsOf{l.Partition: l.Seq},
	}
	if b, blocked := a.judge.Blocked(l.Account, r.Do, r.Scope); blocked {
		answer.Can, answer.Reason = false, explain.Block(l.Account, &b)
		answer.Until = timeOrNone(b.Until)
		answer.Blocks = conditionViews(b.Conditions)
	}
	return answer, nil
}

// timeOrNone writes a time, "" when there is none.
func timeOrNone(ns int64) string {
	if ns == 0 {
		return ""
	}
	return domain.FormatTime(ns)
}

func conditionViews(list []domain.Condition) []domain.ConditionView {
	views := make([]domain.ConditionView, 0, len(list))
	for _, c := range list {
		views = append(views, domain.ConditionView{
			Name: c.Name, Since: domain.FormatTime(c.Since), Until: timeOrNone(c.Until), Scope: c.Scope, Reason: c.Reason,
		})
	}
	return views
}

func (a *App) route(ctx context.Context, r api.RouteRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	if err := capability(r.Do); err != nil {
		return nil, err
	}
	limit, err := limitOf(r.Limit)
	if err != nil {
		return nil, err
	}
	answer := api.Route{AsOf: a.views.runner.AsOf()}
	list, whole := a.views.route.Pick(route.Want{Do: r.Do, Scope: r.Scope, Labels: r.Labels}, limit)
	answer.Accounts, answer.Whole = make([]api.Candidate, len(list)), whole
	for i, c := range list {
		answer.Accounts[i] = api.Candidate{
			Account: string(c.Account), Machine: c.Machine, State: c.State, Used: timeOrNone(c.Used), Since: domain.FormatTime(c.Since), Labels: orEmpty(c.Labels),
		}
	}
	return answer, nil
}

// orEmpty makes labels an object in JSON, also when there are none.
func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}
