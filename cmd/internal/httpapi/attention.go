package httpapi

import (
	"net/http"

	"github.com/musterhq/muster/cmd/internal/api"
)

type attentionInput struct {
	Waits
	PageOf
	WithLabels
	Kind     string `query:"kind" doc:"exact" example:"scan_qr"`
	Source   string `query:"source" doc:"exact"`
	Accounts bool   `query:"accounts" doc:"one row for each account instead of incidents"`
}

func (in *attentionInput) request() (any, error) {
	l, err := in.WithLabels.labels()
	return api.AttentionRequest{
		Kind: in.Kind, Source: in.Source, Labels: l, Accounts: in.Accounts, After: in.After, Limit: in.Limit, WaitFor: in.waitFor(),
	}, err
}

// body is the input of operations that are nothing but their body.
type body[R any] struct{ Body R }

func (in *body[R]) request() (any, error) { return in.Body, nil }

type actInput struct{ Body api.ActRequest }

func (in *actInput) sign(by string) { in.Body.By = by }

// post is a question that does something.
func post[I, R any](a *API, o operation, name string, request func(*I) (any, error)) {
	o.method = http.MethodPost
	question[I, R](a, o, name, request)
}

func (a *API) attentionRoutes() {
	const tag = "attention"
	get[attentionInput, api.Attention](a, operation{
		path: "/v1/attention", id: "listAttention", tag: tag, summary: "Who needs a human: incidents, or accounts one by one",
		description: "Many accounts of one source with one reason within a minute are one incident; the one that began last comes first.",
	}, api.AttentionQuery, (*attentionInput).request)
	post[actInput, api.Action](a, operation{
		path: "/v1/actions", id: "act", tag: tag, summary: "Mute, unmute or acknowledge; kept with who did it and why",
		description: "A target names account, source, kind and incident; all that it names must fit. Unmute takes the id of a mute, too.",
	}, api.ActQuery, func(in *actInput) (any, error) { return in.Body, nil })
}

type deliveriesInput struct {
	Endpoint string `query:"endpoint"`
	Account  string `query:"account"`
	Status   string `query:"status" enum:"pending,delivered,dead"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" doc:"deliveries at most (default 100)"`
}

func (a *API) alertRoutes() {
	const tag = "alerts"
	get[struct{}, api.Alerts](a, operation{
		path: "/v1/alerts", id: "listAlerts", tag: tag, summary: "What was told of accounts that need a human and is not over; mutes and acknowledgements",
	}, api.AlertsQuery, func(*struct{}) (any, error) { return api.AlertsRequest{}, nil })
	get[deliveriesInput, api.Deliveries](a, operation{
		path: "/v1/alerts/deliveries", id: "listDeliveries", tag: tag, summary: "Alerts on their way to endpoints, the one made last first",
	}, api.DeliveriesQuery, func(in *deliveriesInput) (any, error) {
		return api.DeliveriesRequest{Endpoint: in.Endpoint, Account: in.Account, Status: in.Status, Limit: in.Limit}, nil
	})
	done := []int{http.StatusNotFound, http.StatusConflict}
	post[body[api.ResendRequest], api.Resent](a, operation{
		path: "/v1/alerts/resend", id: "resendAlerts", tag: tag, errors: done,
		summary: "Send alerts that are done once more: one, or all that are dead",
	}, api.ResendQuery, (*body[api.ResendRequest]).request)
	post[body[api.TestAlertRequest], api.Delivery](a, operation{
		path: "/v1/alerts/test", id: "testAlert", tag: tag, errors: done, summary: "Send a test alert to an endpoint; the answer comes when it was tried",
	}, api.TestAlertQuery, (*body[api.TestAlertRequest]).request)
}
