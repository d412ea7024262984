package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/musterhq/muster/bus"
)

// TypeProblem is the content type of every error (RFC 9457).
const TypeProblem = "application/problem+json"

// Problem is an answer that is not what was asked for.
type Problem struct {
	Type    string       `json:"type" doc:"a reference to the code's row under /v1/errors" format:"uri-reference"`
	Title   string       `json:"title" doc:"the status in words"`
	Status  int          `json:"status,omitempty" doc:"the HTTP status; absent in a line of a batch and at the end of a stream, where there is none"`
	Code    string       `json:"code" doc:"what went wrong; stable, and listed under /v1/errors"`
	Detail  string       `json:"detail" doc:"a sentence for people"`
	Retry   bool         `json:"retry" doc:"the same request can succeed later"`
	Unknown bool         `json:"unknown,omitempty" doc:"it is not known whether the trigger was stored: send it again with the same id"`
	Errors  []InputFault `json:"errors,omitempty" doc:"each fault of an invalid request"`
	Verdict *Verdict     `json:"verdict,omitempty" doc:"what was judged, when the problem is a verdict"`
}

// InputFault is one fault of a request.
type InputFault struct {
	Where  string `json:"where" doc:"e.g. query.limit or body.trigger"`
	Detail string `json:"detail"`
}

var (
	_ huma.StatusError       = (*Problem)(nil)
	_ huma.ContentTypeFilter = (*Problem)(nil)
	_ huma.HeadersError      = (*Problem)(nil)
)

// NewProblem makes a problem of a code, which is a row of Codes.
func NewProblem(code, detail string) *Problem {
	row := codeOf(code)
	title := http.StatusText(row.Status)
	if title == "" {
		title = "Ended"
	}
	return &Problem{Type: "/v1/errors#" + row.Code, Title: title, Status: row.Status, Code: row.Code, Detail: detail, Retry: row.Retry}
}

// Error is the code and the detail.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of a problem, whatever was asked for.
func (p *Problem) ContentType(string) string { return TypeProblem }

// GetHeaders are the headers that go with it.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{"Cache-Control": {"no-store"}}
	if p.Retry {
		h.Set("Retry-After", "1")
	}
	return h
}

// Write answers with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // texts, numbers and a verdict
		body = []byte(`{"code":"` + CodeInternal + `"}`)
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", TypeProblem)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

func invalid(detail string) *Problem { return NewProblem(CodeInvalid, detail) }

// fault is an invalid request with one fault.
func fault(where, detail string) *Problem {
	p := invalid(where + ": " + detail)
	p.Errors = []InputFault{{Where: where, Detail: detail}}
	return p
}

// problemOf turns an error into what the caller is told. What is not made for
// callers is logged and told as an internal error.
func (a *API) problemOf(ctx context.Context, what string, err error) *Problem {
	var p *Problem
	var known *bus.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &known):
		row := codeOf(codeOfTitle(known.Title, known.Code))
		p = NewProblem(row.Code, known.Detail)
		p.Retry, p.Unknown = p.Retry || known.Retryable, known.Unknown
		if row.Status != http.StatusInternalServerError {
			return p
		}
		p.Detail = row.About // the rest is for the log
	case bus.Undecided(err):
		p = NewProblem(CodeUnknown, "no answer came in time; it is not known whether the trigger was judged")
		p.Unknown = true
		return p
	case errors.Is(err, bus.ErrUnreachable):
		return NewProblem(CodeUnreachable, "nobody takes triggers at the moment")
	case errors.Is(err, context.DeadlineExceeded):
		return NewProblem(CodeLate, "the answer was not ready in time")
	case errors.Is(err, context.Canceled):
		return NewProblem(CodeShuttingDown, "the server is shutting down") // or the client has gone, and reads nothing
	}
	a.cfg.Logger.ErrorContext(ctx, "a request failed", "operation", what, "error", err)
	if p == nil {
		p = NewProblem(CodeInternal, "the server could not answer; its log says why")
	}
	return p
}

// The errors that huma makes itself become problems, too. It keeps them in
// variables of its package; nothing else here uses it.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaError(nil, status, msg, errs...)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return humaError(ctx, status, msg, errs...)
	}
	huma.DefaultArrayNullable = false
}

// unknownParameter is what huma says of a query parameter that a path does not take.
const unknownParameter = "unknown query parameter"

// parameters names what an operation takes in the query.
func parameters(ctx huma.Context) string {
	var names []string
	if ctx != nil && ctx.Operation() != nil {
		for _, p := range ctx.Operation().Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return "this path takes none"
	}
	return "this path takes " + strings.Join(names, ", ")
}

// humaError is what huma found wrong with a request. ctx may be nil.
func humaError(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	code := CodeInvalid
	switch {
	case status == http.StatusRequestEntityTooLarge, status == http.StatusUnsupportedMediaType:
		code = codeOfStatus(status)
	case status == http.StatusRequestTimeout:
		code, msg = CodeIncomplete, "the body did not come in time"
	case status >= http.StatusInternalServerError:
		return NewProblem(CodeInternal, "the server could not answer; its log says why")
	}
	p := NewProblem(code, msg)
	for _, err := range errs {
		f := InputFault{Detail: err.Error()}
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			f = InputFault{Where: d.ErrorDetail().Location, Detail: d.ErrorDetail().Message}
		}
		if f.Detail == unknownParameter {
			f.Detail += "; " + parameters(ctx)
		}
		p.Errors = append(p.Errors, f)
	}
	if len(p.Errors) > 0 && code == CodeInvalid {
		p.Detail = p.Errors[0].Detail
		if p.Errors[0].Where != "" {
			p.Detail = p.Errors[0].Where + ": " + p.Detail
		}
	}
	return p
}
