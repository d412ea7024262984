package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
)

// OfMachine is the input of everything about one machine.
type OfMachine struct {
	Machine string `path:"machine" doc:"name and version" example:"whatsapp@2"`
}

type diagramInput struct {
	OfMachine
	Format string `query:"format" enum:"mermaid,dot" doc:"mermaid (default), or dot for Graphviz"`
}

// textOutput is an answer that is plain text.
type textOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// oneMachine asks for a machine with everything about it.
func (a *API) oneMachine(ctx context.Context, name string) (api.Machine, error) {
	list, err := ask[api.Machines](ctx, a, api.MachinesQuery, api.MachinesRequest{Name: name})
	if err != nil {
		return api.Machine{}, err
	}
	return list.Machines[0], nil
}

func (a *API) getMachine(ctx context.Context, in *OfMachine) (*out[api.Machine], error) {
	m, err := a.oneMachine(ctx, in.Machine)
	return &out[api.Machine]{m}, err
}

func (a *API) getDiagram(ctx context.Context, in *diagramInput) (*textOutput, error) {
	m, err := a.oneMachine(ctx, in.Machine)
	text := m.Mermaid
	if in.Format == "dot" {
		text = m.DOT
	}
	return &textOutput{"text/plain; charset=utf-8", []byte(text)}, err
}

type connectorsInput struct {
	Samples bool `query:"samples" doc:"with the last units that nobody could map"`
}

type inboxInput struct {
	Before string `query:"before" doc:"next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"messages of a page (default 100)"`
}

// CodeList is the table of codes.
type CodeList struct {
	Codes []Code `json:"codes"`
}

func (a *API) serverRoutes() {
	a.machineRoutes()
	const tag = "server"
	get[Waits, api.Workers](a, operation{
		path: "/v1/workers", id: "listWorkers", tag: tag, summary: "The workers: who lives, and how many accounts each vouches for",
	}, api.WorkersQuery, func(in *Waits) (any, error) { return api.WorkersRequest{WaitFor: in.waitFor()}, nil })
	get[connectorsInput, api.Connectors](a, operation{
		path: "/v1/connectors", id: "listConnectors", tag: tag, summary: "The sources of webhooks and what they have sent",
	}, api.ConnectorsQuery, func(in *connectorsInput) (any, error) { return api.ConnectorsRequest{Samples: in.Samples}, nil })
	get[inboxInput, api.Inbox](a, operation{
		path: "/v1/inbox", id: "listInbox", tag: tag, summary: "What waits in the inbox, and a page of what could not be judged, the last one first",
	}, api.InboxQuery, func(in *inboxInput) (any, error) { return api.InboxRequest{Before: in.Before, Limit: in.Limit}, nil })
	settle := (*body[api.SettleRequest]).request
	post[body[api.SettleRequest], api.Settled](a, operation{
		path: "/v1/inbox/retry", id: "retryInbox", tag: tag, errors: missing, summary: "Put parked messages into the inbox again: one, or all",
	}, api.InboxRetryQuery, settle)
	post[body[api.SettleRequest], api.Settled](a, operation{
		path: "/v1/inbox/drop", id: "dropInbox", tag: tag, errors: missing, summary: "Forget parked messages: one, or all",
	}, api.InboxDropQuery, settle)
	get[struct{}, api.Projections](a, operation{
		path: "/v1/projections", id: "listProjections", tag: tag, summary: "The views: whether each is up to date, what it has passed over, how its rebuild goes on",
	}, api.ProjectionsQuery, func(*struct{}) (any, error) { return api.ProjectionsRequest{}, nil })
	post[body[api.RebuildRequest], api.Projection](a, operation{
		path: "/v1/projections/rebuild", id: "rebuildProjection", tag: tag, errors: []int{http.StatusNotFound, http.StatusConflict},
		summary: "Fold a view anew beside the one that answers; the answer comes when that has begun",
	}, api.RebuildQuery, (*body[api.RebuildRequest]).request)
	add(a, operation{
		method: http.MethodGet, path: "/v1/errors", id: "listCodes", role: auth.Any, tag: tag, summary: "The codes of problems, and what each means",
	}, func(context.Context, *struct{}) (*out[CodeList], error) {
		return &out[CodeList]{CodeList{Codes()}}, nil
	})
}

// needs is who may ask a question.
func needs(question string) auth.Role {
	need, _ := auth.QueryNeeds(question)
	return need
}

type newTokenInput struct{ Body api.TokenCreateRequest }

func (in *newTokenInput) sign(by string) { in.Body.By = by }

type endTokenInput struct{ Body api.TokenRevokeRequest }

func (in *endTokenInput) sign(by string) { in.Body.By = by }

func (a *API) tokenRoutes() {
	const tag = "tokens"
	get[struct{}, api.Tokens](a, operation{
		path: "/v1/tokens", id: "listTokens", tag: tag, summary: "All tokens, the oldest first; never a secret",
	}, api.TokensQuery, func(*struct{}) (any, error) { return api.TokensRequest{}, nil })
	post[newTokenInput, api.Token](a, operation{
		path: "/v1/tokens", id: "createToken", tag: tag, summary: "Have a token kept",
		description: "Its secret stays with who made it: only the SHA-256 is sent. muster token create does all of it.",
		errors:      []int{http.StatusConflict},
	}, api.TokenCreateQuery, func(in *newTokenInput) (any, error) { return in.Body, nil })
	post[endTokenInput, api.Token](a, operation{
		path: "/v1/tokens/revoke", id: "revokeToken", tag: tag, errors: missing,
		summary: "End a token, and the connections that were made with it",
	}, api.TokenRevokeQuery, func(in *endTokenInput) (any, error) { return in.Body, nil })
}

func (a *API) machineRoutes() {
	const tag = "machines"
	get[struct{}, api.Machines](a, operation{
		path: "/v1/machines", id: "listMachines", tag: tag, summary: "The transition tables by which triggers are judged, in numbers",
	}, api.MachinesQuery, func(*struct{}) (any, error) { return api.MachinesRequest{}, nil })
	add(a, operation{
		method: http.MethodGet, path: "/v1/machines/{machine}", id: "getMachine", role: needs(api.MachinesQuery), question: api.MachinesQuery, tag: tag,
		summary: "One machine, with its table as YAML and its diagrams", errors: missing,
	}, a.getMachine)
	add(a, operation{
		method: http.MethodGet, path: "/v1/machines/{machine}/diagram", id: "getDiagram", role: needs(api.MachinesQuery), question: api.MachinesQuery, tag: tag,
		summary: "One machine's diagram as text", errors: missing,
		change: func(op *huma.Operation) {
			op.Responses = map[string]*huma.Response{"200": {
				Description: "The diagram", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
			}}
		},
	}, a.getDiagram)
}

// notModified documents the answer that an account is still at a version.
func notModified(op *huma.Operation) {
	op.Responses = map[string]*huma.Response{"304": {Description: "The account is still at the version that If-None-Match names"}}
}
