package httpapi

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
	"github.com/musterhq/muster/domain"
)

// Trigger is what a body of a trigger may hold. It only describes: bodies are read
// by the decoder that reads all triggers.
type Trigger struct {
	Trigger string            `json:"trigger" doc:"what happened, or is asked for" example:"qr_received"`
	ID      string            `json:"id,omitempty" doc:"by which a repeated trigger is recognised; the same as Idempotency-Key"`
	Account string            `json:"account,omitempty" doc:"in a batch: the account. Else that of the path"`
	Key     string            `json:"key,omitempty" doc:"message id or contact, for triggers about one"`
	At      string            `json:"at,omitempty" format:"date-time" doc:"when it was observed; absent: now"`
	Source  string            `json:"source,omitempty" doc:"who publishes it: a connector or worker"`
	Epoch   int64             `json:"epoch,omitempty" minimum:"0" doc:"which connection of the account: a number that grows"`
	Seq     int64             `json:"seq,omitempty" minimum:"0" doc:"which message of that connection"`
	By      string            `json:"by,omitempty" enum:"user,us,remote,unknown," doc:"who caused it"`
	Reason  *TriggerReason    `json:"reason,omitempty"`
	Data    map[string]any    `json:"data,omitempty" doc:"payload; never a secret"`
	Expect  *int64            `json:"expect,omitempty" minimum:"0" doc:"judge it only if the account is at this version; the same as If-Match"`
	Machine string            `json:"machine,omitempty" doc:"of a new account" example:"whatsapp@2"`
	Mode    string            `json:"mode,omitempty" enum:"observe,supervise," doc:"of a new account"`
	Labels  map[string]string `json:"labels,omitempty" doc:"of a new account"`
}

// TriggerReason is why something happened, as the source gave it.
type TriggerReason struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
}

// TriggerHeaders are the headers of a request that has something judged.
type TriggerHeaders struct {
	IfMatch     string `header:"If-Match" doc:"the account's version as its ETag gives it: judge only if it is still that; else 412" example:"\"5\""`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: judge only if nothing is known of the account yet; else 412"`
	Idempotency string `header:"Idempotency-Key" doc:"the trigger's id: the same key sent again is judged once"`
	Traceparent string `header:"traceparent" doc:"W3C trace context, carried into the history"`
}

// triggerInput is one trigger of an account.
type triggerInput struct {
	OfAccount
	TriggerHeaders
	RawBody []byte
}

// verdictOutput is a verdict that is a success.
type verdictOutput struct {
	ETag string `header:"ETag" doc:"the account's version"`
	AsOf string `header:"Muster-As-Of" doc:"where the verdict stands; give it to wait_for to read what it did"`
	Body Verdict
}

// mediaTypes lets bodies of these types in and no others. It is also what keeps a
// web page of somebody else from posting: a browser asks before it sends them.
func mediaTypes(allowed ...string) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		got := ctx.Header("Content-Type")
		media, _, err := mime.ParseMediaType(got)
		for _, one := range allowed {
			if err == nil && media == one {
				next(ctx)
				return
			}
		}
		_, w := humago.Unwrap(ctx)
		NewProblem(CodeMediaType, fmt.Sprintf("the body's Content-Type is %q; it is to be %s", got, strings.Join(allowed, " or "))).Write(w)
	}}
}

func (a *API) triggerRoutes() {
	const tag = "triggers"
	judged := []int{
		http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity, http.StatusLocked, http.StatusInsufficientStorage,
	}
	add(a, operation{
		method: http.MethodPost, path: "/v1/accounts/{account}/triggers", id: "sendTrigger", role: auth.Connector, tag: tag, errors: judged,
		summary: "Have a trigger judged; the answer is its verdict, once it is stored",
		description: "200: applied, noop, or a duplicate of one that was. 422 rejected or stale: judged, kept, and nothing moved; the verdict stands in the problem. " +
			"412: the account is not at the version of If-Match; 409: not at the body's expect. 400: the trigger is invalid and was not kept.",
		change: func(op *huma.Operation) {
			op.SkipValidateBody = true // the decoder of all triggers does it
			op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
				Schema: a.schema(typeOf[Trigger]()),
			}}}
		},
	}, a.sendTrigger)
	a.batchRoute(tag, judged)
	add(a, operation{
		method: http.MethodPost, path: "/v1/accounts/{account}/conversations/{contact}/claims", id: "claim", role: auth.Connector, tag: tag, errors: judged,
		summary: "May this handler answer a customer's message?",
		description: "Of all who ask, exactly one is granted it (200); who was granted it is told so again. Not granted is 422 with code rejected: " +
			"the verdict's reason is already_claimed, human_in_charge, bot_in_charge or ended.",
	}, a.claim)
}

// schema registers the schema of a type that only describes.
func (a *API) schema(t reflect.Type) *huma.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(t, true, "")
}

func (a *API) sendTrigger(ctx context.Context, in *triggerInput) (*verdictOutput, error) {
	t, err := dispatch.ParseJSON(in.RawBody, in.Account)
	if err != nil {
		p := invalid(err.Error())
		p.Verdict = &Verdict{bus.Reply{Verdict: domain.Refusal(&t, err), Partition: -1}}
		return nil, p
	}
	precondition, err := in.apply(&t)
	if err != nil {
		return nil, err
	}
	reply, err := a.judge(ctx, &t, precondition)
	if err != nil {
		return nil, err
	}
	return &verdictOutput{ETag: etag(reply.Version), AsOf: live.Position(reply.AsOf()).String(), Body: Verdict{reply}}, nil
}

// apply writes what the headers say into the trigger. precondition says that a
// header named the expected version.
func (h *TriggerHeaders) apply(t *domain.Trigger) (precondition bool, err error) {
	if len(h.Traceparent) <= maxTraceparent {
		t.Traceparent = h.Traceparent
	}
	if err := h.applyID(t); err != nil {
		return false, err
	}
	expect, precondition, err := h.expect()
	if err != nil || !precondition {
		return false, err
	}
	if t.Expect != domain.NoExpect && t.Expect != expect {
		return false, fault("header.If-Match", fmt.Sprintf("it is version %d, and the body expects %d", expect, t.Expect))
	}
	t.Expect = expect
	return true, nil
}

// maxTraceparent is the longest trace context that is carried on, in bytes.
const maxTraceparent = 128

// applyID takes the idempotency key, which may be quoted, as the trigger's id.
func (h *TriggerHeaders) applyID(t *domain.Trigger) error {
	id := h.Idempotency
	if n := len(id); n >= 2 && id[0] == '"' && id[n-1] == '"' {
		id = id[1 : n-1]
	}
	switch {
	case id == "":
	case t.ID != "" && t.ID != id:
		return fault("header.Idempotency-Key", fmt.Sprintf("it is %q, and the body's id is %q", id, t.ID))
	default:
		t.ID = id
	}
	return nil
}

// expect is the version that a header names.
func (h *TriggerHeaders) expect() (version int64, named bool, err error) {
	switch {
	case h.IfNoneMatch != "" && h.IfMatch != "":
		return 0, false, fault("header.If-None-Match", "it contradicts If-Match; send one of them")
	case h.IfNoneMatch != "": // it is *
		return 0, true, nil
	case h.IfMatch == "":
		return 0, false, nil
	}
	text, quoted := strings.CutPrefix(h.IfMatch, `"`)
	text, ended := strings.CutSuffix(text, `"`)
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || quoted != ended {
		return 0, false, fault("header.If-Match", fmt.Sprintf(`it is %s; it is to be one version as an ETag gives it, e.g. "5"`, h.IfMatch))
	}
	return int64(n), true, nil
}

// judge has one trigger judged. A verdict that is no success is an error.
func (a *API) judge(ctx context.Context, t *domain.Trigger, precondition bool) (bus.Reply, error) {
	if err := may(ctx, t); err != nil {
		return bus.Reply{}, a.problemOf(ctx, "sendTrigger", err)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	reply, err := a.cfg.Sender.Send(ctx, *t)
	if err != nil {
		return reply, a.problemOf(ctx, "sendTrigger", err)
	}
	if p := verdictProblem(&reply, precondition); p != nil {
		return reply, p
	}
	return reply, nil
}

// may is nil when who makes the request may publish the trigger.
func may(ctx context.Context, t *domain.Trigger) error {
	if i := auth.From(ctx); i != nil {
		return i.MayTrigger(t)
	}
	return nil // no guard stands before the API
}

// verdictProblem is the one place that says which verdicts are problems. A
// duplicate counts as what it was the first time.
func verdictProblem(r *bus.Reply, precondition bool) *Problem {
	outcome := r.Outcome
	if outcome == domain.Duplicate && r.Earlier != 0 {
		outcome = r.Earlier
	}
	code := ""
	switch outcome {
	case domain.Rejected:
		code = CodeRejected
	case domain.Stale:
		code = CodeStale
	case domain.Invalid:
		code = CodeInvalid
	case domain.Conflict:
		code = CodeConflict
		if precondition {
			code = CodePrecondition
		}
	default:
		return nil
	}
	p := NewProblem(code, fmt.Sprintf("%s of account %q: %s", r.Trigger, r.Account, r.Reason))
	p.Verdict = &Verdict{*r}
	return p
}

// claimInput asks for a customer's message.
type claimInput struct {
	OfConversation
	TriggerHeaders
	Body ClaimRequest
}

// OfConversation is the input of everything about one conversation.
type OfConversation struct {
	OfAccount
	Contact string `path:"contact" doc:"the contact, percent-encoded"`
}

// ClaimRequest says who would answer which message.
type ClaimRequest struct {
	Message string `json:"message" minLength:"1" doc:"the customer's message"`
	Side    string `json:"side" enum:"bot,human"`
	Handler string `json:"handler" minLength:"1" doc:"the name of who would answer"`
	Source  string `json:"source,omitempty" doc:"who publishes it"`
}

func (a *API) claim(ctx context.Context, in *claimInput) (*out[api.Claimed], error) {
	t := domain.Trigger{
		Account: domain.AccountID(in.Account), Name: "claim", Key: in.Contact, Source: in.Body.Source, Expect: domain.NoExpect,
		Data: domain.Data{"message": in.Body.Message, "side": in.Body.Side, "handler": in.Body.Handler},
	}
	precondition, err := in.apply(&t)
	if err != nil {
		return nil, err
	}
	reply, err := a.judge(ctx, &t, precondition)
	if err != nil {
		return nil, err
	}
	return &out[api.Claimed]{api.Claimed{
		Account: in.Account, Contact: in.Contact, Message: in.Body.Message, Side: in.Body.Side, Handler: in.Body.Handler,
		Granted: true, Outcome: reply.Outcome.String(), Reason: reply.Reason, State: reply.To, Version: reply.Version, AsOf: reply.AsOf(),
	}}, nil
}
