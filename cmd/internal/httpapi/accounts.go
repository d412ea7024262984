package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/musterhq/muster/cmd/internal/api"
)

// Filters are what accounts can be found by.
type Filters struct {
	WithLabels
	Prefix      string `query:"prefix" doc:"of the account's id"`
	Machine     string `query:"machine" doc:"exact" example:"whatsapp@2"`
	State       string `query:"state" doc:"exact" example:"RUNNING"`
	Class       string `query:"class" doc:"exact" example:"ready"`
	Condition   string `query:"condition" doc:"has a condition of this name" example:"rate_limited"`
	Desired     string `query:"desired" enum:"run,stop"`
	Source      string `query:"source" doc:"the account's source, exact"`
	Attention   string `query:"attention" doc:"asks for a human for this" example:"scan_qr"`
	SinceFrom   string `query:"since_from" format:"date-time" doc:"in its state since this time or later"`
	SinceBefore string `query:"since_before" format:"date-time" doc:"in its state since before this time"`
}

func (in *Filters) request() (api.ListRequest, error) {
	l, err := in.WithLabels.labels()
	return api.ListRequest{
		Prefix: in.Prefix, Machine: in.Machine, State: in.State, Class: in.Class, Condition: in.Condition, Desired: in.Desired,
		Source: in.Source, Attention: in.Attention, Labels: l, SinceFrom: in.SinceFrom, SinceBefore: in.SinceBefore,
	}, err
}

// listInput asks for a page of accounts.
type listInput struct {
	Waits
	PageOf
	Filters
}

func (in *listInput) request() (any, error) {
	r, err := in.Filters.request()
	r.After, r.Limit, r.WaitFor = in.After, in.Limit, in.waitFor()
	return r, err
}

// facetsInput asks how many each filter would find.
type facetsInput struct {
	Waits
	Filters
}

func (in *facetsInput) request() (any, error) {
	r, err := in.Filters.request()
	return api.FacetsRequest{ListRequest: r, WaitFor: in.waitFor()}, err
}

// accountInput asks for one account.
type accountInput struct {
	OfAccount
	Waits
	IfNoneMatch string `header:"If-None-Match" doc:"the ETag of an earlier answer: 304 when the account is still at this version"`
}

// accountOutput is one account.
type accountOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"the account's version, for If-Match and If-None-Match"`
	Body   *api.Account
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

func (a *API) getAccount(ctx context.Context, in *accountInput) (*accountOutput, error) {
	acct, err := ask[api.Account](ctx, a, api.GetQuery, api.GetRequest{Account: in.Account, WaitFor: in.waitFor()})
	if err != nil {
		return nil, err
	}
	got := &accountOutput{Status: http.StatusOK, ETag: etag(acct.Version), Body: &acct}
	if in.IfNoneMatch == got.ETag {
		got.Status = http.StatusNotModified
	}
	return got, nil
}

// canInput asks whether an account may do something.
type canInput struct {
	OfAccount
	Do    string `query:"do" required:"true" enum:"read,send,bulk"`
	Scope string `query:"scope" doc:"what it is about, e.g. new_chats; absent: none named"`
}

type timelineInput struct {
	OfAccount
	Before string `query:"before" doc:"next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"events of a page (default 100)"`
}

type routeInput struct {
	Waits
	WithLabels
	Do    string `query:"do" required:"true" enum:"read,send,bulk"`
	Scope string `query:"scope" doc:"what it is about, e.g. new_chats; absent: none named"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" doc:"accounts at most (default 100)"`
}

func (in *routeInput) request() (any, error) {
	l, err := in.WithLabels.labels()
	return api.RouteRequest{Do: in.Do, Scope: in.Scope, Labels: l, Limit: in.Limit, WaitFor: in.waitFor()}, err
}

// missing is the status of what is about one thing that may not be there.
var missing = []int{http.StatusNotFound}

func (a *API) accountRoutes() {
	const tag = "accounts"
	get[listInput, api.Page](a, operation{
		path: "/v1/accounts", id: "listAccounts", tag: tag, summary: "A page of accounts, by id, with filters",
		description: "All filters must hold at once. A page may hold fewer accounts than its limit, even none, and still have a next one.",
	}, api.ListQuery, (*listInput).request)
	get[facetsInput, api.Facets](a, operation{
		path: "/v1/facets", id: "countFacets", tag: tag, summary: "How many accounts each filter would find, among those that the given ones find",
	}, api.FacetsQuery, (*facetsInput).request)
	a.oneAccount(tag)
	get[routeInput, api.Route](a, operation{
		path: "/v1/route", id: "route", tag: tag, summary: "Accounts that may be used for a send, the one used longest ago first",
	}, api.RouteQuery, (*routeInput).request)
}

func (a *API) oneAccount(tag string) {
	add(a, operation{
		method: http.MethodGet, path: "/v1/accounts/{account}", id: "getAccount", role: needs(api.GetQuery), question: api.GetQuery, tag: tag,
		summary: "One account: state, since, conditions, what it can do", errors: missing, change: notModified,
	}, a.getAccount)
	get[canInput, api.Can](a, operation{
		path: "/v1/accounts/{account}/can", id: "can", tag: tag, summary: "May this account read, send or bulk now? If not, why and until when",
		description: "The answer is never behind a verdict that was given.", errors: missing,
	}, api.CanQuery, func(in *canInput) (any, error) {
		return api.CanRequest{Account: in.Account, Do: in.Do, Scope: in.Scope}, nil
	})
	get[OfAccount, api.Why](a, operation{
		path: "/v1/accounts/{account}/why", id: "why", tag: tag, summary: "Where the account is and what it waits for: a sentence, and the evidence", errors: missing,
	}, api.WhyQuery, func(in *OfAccount) (any, error) { return api.WhyRequest{Account: in.Account}, nil })
	get[timelineInput, api.Timeline](a, operation{
		path: "/v1/accounts/{account}/timeline", id: "timeline", tag: tag, summary: "The account's events, the last one first", errors: missing,
	}, api.TimelineQuery, func(in *timelineInput) (any, error) {
		return api.TimelineRequest{Account: in.Account, Before: in.Before, Limit: in.Limit}, nil
	})
}
