package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nuid"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// alertQueries is the table of what can be asked about alerts.
func (a *App) alertQueries() []query.Query {
	return []query.Query{
		{Name: api.AlertsQuery, Description: "What was told of accounts that need a human and is not over; mutes and acknowledgements", Handle: query.Of(a.listAlerts)},
		{Name: api.DeliveriesQuery, Description: "Alerts on their way to endpoints, the one made last first", Handle: query.Of(a.listDeliveries)},
		{Name: api.ResendQuery, Description: "Send alerts that are done once more: one, or all that are dead", Handle: query.Of(a.resendAlert)},
		{Name: api.TestAlertQuery, Description: "Send a test alert to an endpoint", Handle: query.Of(a.testAlert)},
		{Name: api.ActQuery, Description: "Mute, unmute or acknowledge; kept with who did it and why", Handle: query.Of(a.act)},
	}
}

// alertEngine is who makes the alerts, if this process does now.
func (a *App) alertEngine() (*alert.Engine, error) {
	if e := a.alerts.engine.Load(); e != nil {
		return e, nil
	}
	return nil, alertError(alert.ErrEnded)
}

// alertError is an engine's error as an answer.
func alertError(err error) error {
	switch {
	case errors.Is(err, alert.ErrEnded):
		return &bus.Error{Code: http.StatusServiceUnavailable, Title: "not now", Detail: err.Error(), Retryable: true}
	case errors.Is(err, alert.ErrNoEndpoint), errors.Is(err, alert.ErrNoDelivery):
		return notFound("%v", err)
	case errors.Is(err, alert.ErrWaiting):
		return &bus.Error{Code: http.StatusConflict, Title: "conflict", Detail: err.Error()}
	}
	return err
}

func (a *App) listAlerts(ctx context.Context, _ api.AlertsRequest) (any, error) {
	e, err := a.alertEngine()
	if err != nil {
		return nil, err
	}
	l, err := e.List(ctx)
	if err != nil {
		return nil, alertError(err)
	}
	answer := api.Alerts{
		Endpoints: []api.AlertEndpoint{}, Open: make([]api.OpenAlert, 0, len(l.Open)), Debounced: l.Debounced,
		Mutes: actionsOf(l.Mutes), Acks: actionsOf(l.Acks), Counts: api.AlertCounts(l.Counts),
	}
	for _, end := range a.cfg.Alerts.Endpoints {
		row := api.AlertEndpoint{Name: end.Name, Waiting: l.Waiting[end.Name]}
		if at := l.Disabled[end.Name]; at != 0 {
			row.Disabled = domain.FormatTime(at)
		}
		answer.Endpoints = append(answer.Endpoints, row)
	}
	for i := range l.Open {
		answer.Open = append(answer.Open, openAlertOf(&l.Open[i]))
	}
	return answer, nil
}

func openAlertOf(o *alert.Standing) api.OpenAlert {
	status := "waiting"
	switch {
	case o.Told && o.Acked:
		status = "acknowledged"
	case o.Told:
		status = "told"
	case o.Held > 0 && o.Waiting == 0:
		status = "muted"
	}
	return api.OpenAlert{
		Endpoint: o.Endpoint, Incident: o.Incident, Kind: o.Kind, Source: o.Source, Reason: o.Reason, Since: timeOrNone(o.Since),
		Accounts: o.Open, Status: status, Grouped: o.Grouped, Sample: o.Sample,
	}
}

func actionsOf(list []operator.Action) []api.Action {
	out := make([]api.Action, 0, len(list))
	for i := range list {
		out = append(out, actionOf(&list[i]))
	}
	return out
}

func actionOf(a *operator.Action) api.Action {
	return api.Action{
		ID: a.ID, At: timeText(a.At), By: a.By, Action: string(a.Action), Target: orEmpty(a.Target), Reason: a.Reason, Until: timeText(a.Until),
	}
}

func (a *App) listDeliveries(ctx context.Context, r api.DeliveriesRequest) (any, error) {
	limit, err := limitOf(r.Limit)
	if err != nil {
		return nil, err
	}
	switch s := alert.Status(r.Status); s {
	case "", alert.Pending, alert.Delivered, alert.Dead:
	default:
		return nil, invalid("there is no status %q; it is pending, delivered or dead", r.Status)
	}
	e, err := a.alertEngine()
	if err != nil {
		return nil, err
	}
	list, err := e.Deliveries(ctx, alert.Filter{Endpoint: r.Endpoint, Account: r.Account, Status: alert.Status(r.Status), Limit: limit})
	if err != nil {
		return nil, alertError(err)
	}
	answer := api.Deliveries{Deliveries: make([]api.Delivery, 0, len(list))}
	for i := range list {
		answer.Deliveries = append(answer.Deliveries, deliveryOf(&list[i]))
	}
	return answer, nil
}

func deliveryOf(d *alert.Delivery) api.Delivery {
	out := api.Delivery{
		ID: d.ID, Endpoint: d.Endpoint, Type: string(d.Type), Kind: d.Kind, Account: d.Account, Incident: d.Incident,
		Status: string(d.Status), Attempts: d.Attempts, Made: timeOrNone(d.Made), Done: timeOrNone(d.Done), Code: d.Code, Error: d.Err, Body: d.Body,
	}
	if d.Status == alert.Pending {
		out.Next = timeOrNone(d.Next)
	}
	return out
}

func (a *App) resendAlert(ctx context.Context, r api.ResendRequest) (any, error) {
	e, err := a.alertEngine()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Dead == (r.ID != ""):
		return nil, invalid("name one delivery (id), or all that are dead")
	case r.Dead:
		n, err := e.ResendDead(ctx, r.Endpoint)
		return api.Resent{Done: n}, alertError(err)
	}
	return api.Resent{Done: 1}, alertError(e.Resend(ctx, r.ID))
}

// testAlert answers when the test alert was tried once.
func (a *App) testAlert(ctx context.Context, r api.TestAlertRequest) (any, error) {
	e, err := a.alertEngine()
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	d, err := e.Test(ctx, r.Endpoint, nuid.Next())
	for err == nil && d.Attempts == 0 && d.Status == alert.Pending {
		select {
		case <-tick.C:
			d, err = e.Delivery(ctx, d.ID)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, alertError(err)
	}
	return deliveryOf(&d), nil
}

// act keeps what an operator does. The answer comes when it is stored; alerts obey
// it a moment later.
func (a *App) act(ctx context.Context, r api.ActRequest) (any, error) {
	action := operator.Action{By: doneBy(ctx, r.By), Action: operator.Name(r.Action), Target: r.Target, Reason: r.Reason}
	switch action.Action {
	case operator.Mute, operator.Unmute, operator.Ack:
	default:
		return nil, invalid("there is no action %q; it is mute, unmute or ack", r.Action)
	}
	for key := range r.Target {
		switch key {
		case operator.Account, operator.Source, operator.Kind, operator.Incident:
			continue
		case operator.ID:
			if action.Action == operator.Unmute {
				continue
			}
		}
		return nil, invalid("a target has no %q; it has account, source, kind and incident", key)
	}
	if r.Until != "" {
		at, err := time.Parse(time.RFC3339, r.Until)
		if err != nil {
			return nil, invalid("until is %q; it is a time like 2026-01-01T10:00:00Z", r.Until)
		}
		action.Until = at.UTC()
	}
	done, _, err := a.alerts.actions.Append(ctx, action)
	switch {
	case errors.Is(err, operator.ErrInvalid):
		return nil, invalid("%v", err)
	case err != nil:
		return nil, fmt.Errorf("keep what was done: %w", err)
	}
	return actionOf(&done), nil
}
