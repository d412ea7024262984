package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/musterhq/muster/cmd/internal/auth"
)

// RoleKey is the key of a route's role in the metadata of its operation, and, with
// "x-" before it, in the OpenAPI document.
const RoleKey = "role"

// Route is one operation.
type Route struct {
	Method string    `json:"method"`
	Path   string    `json:"path"` // as http.ServeMux takes it
	ID     string    `json:"id"`   // the operation's id
	Role   auth.Role `json:"role"`
}

// Routes returns the table of routes and roles.
func Routes() []Route {
	a, err := New(Config{})
	if err != nil {
		return nil // the document of the package itself; a test makes it
	}
	return a.Routes()
}

// Routes returns the table of routes and roles.
func (a *API) Routes() []Route { return slices.Clone(a.routes) }

// judgesKey stands in the metadata of operations that answer with verdicts.
const judgesKey = "judges"

// operation describes one operation; the rest follows from its types.
type operation struct {
	method, path string
	id           string
	role         auth.Role
	tag          string
	summary      string
	description  string
	question     string // of the bus, which it asks; "" = none
	errors       []int  // statuses beside those that every operation has
	change       func(*huma.Operation)
}

// huma makes huma's description of it.
func (o *operation) huma() huma.Operation {
	op := huma.Operation{
		Method: o.method, Path: o.path, OperationID: o.id, Summary: o.summary, Description: o.description, Tags: []string{o.tag},
		Metadata:        map[string]any{RoleKey: string(o.role)},
		Extensions:      map[string]any{"x-" + RoleKey: string(o.role)},
		MaxBodyBytes:    MaxBody,
		BodyReadTimeout: 30 * time.Second,
		Errors:          slices.Clone(o.errors),

		RejectUnknownQueryParameters: true,
	}
	if o.question != "" {
		op.Extensions["x-question"] = o.question
	}
	if slices.Contains(o.errors, http.StatusUnprocessableEntity) {
		op.Metadata[judgesKey] = true
	}
	if o.method == http.MethodPost {
		op.Middlewares = mediaTypes("application/json")
		op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if o.change != nil {
		o.change(&op)
	}
	return op
}

// add registers an operation.
func add[I, O any](a *API, o operation, handle func(context.Context, *I) (*O, error)) {
	a.routes = append(a.routes, Route{Method: o.method, Path: o.path, ID: o.id, Role: o.role})
	huma.Register(a.huma, o.huma(), handle)
}

// out is an answer that is nothing but its body.
type out[R any] struct{ Body R }

// get registers a question: request makes it of the input.
func get[I, R any](a *API, o operation, name string, request func(*I) (any, error)) {
	o.method = http.MethodGet
	question[I, R](a, o, name, request)
}

// signed is the input of an operation that is kept with who did it: the name of
// the token, whatever the request says, where there is one.
type signed interface{ sign(by string) }

// question is an operation that is a row of the table of questions. Who may ask it
// is the same as on the bus.
func question[I, R any](a *API, o operation, name string, request func(*I) (any, error)) {
	o.role, o.question = needs(name), name
	add(a, o, func(ctx context.Context, in *I) (*out[R], error) {
		if c, ok := any(in).(signed); ok {
			if who := auth.From(ctx); who != nil && who.Token != "" {
				c.sign(who.Name)
			}
		}
		req, err := request(in)
		if err != nil {
			return nil, err
		}
		answer, err := ask[R](ctx, a, name, req)
		if err != nil {
			return nil, err
		}
		return &out[R]{answer}, nil
	})
}

// register adds all operations.
func (a *API) register() {
	a.accountRoutes()
	a.triggerRoutes()
	a.talkRoutes()
	a.fleetRoutes()
	a.attentionRoutes()
	a.alertRoutes()
	a.serverRoutes()
	a.tokenRoutes()
	a.streamRoutes()
}

// document is what the OpenAPI document begins with.
func document(version string) huma.Config {
	if version == "" {
		version = "dev"
	}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Muster", Version: version,
				Description: "The state of a fleet of messaging accounts: what each is in, since when and why; who may send; who needs a human. " +
					"Every answer carries as_of, the position of what it was read from; wait_for takes one, to read one's own write. " +
					"Ids in paths are percent-encoded. Errors are problems (RFC 9457) with a stable code, listed under /v1/errors. " +
					"Verdicts: applied, noop and duplicate are 200; a duplicate of what was rejected or stale is told as that; rejected and stale are 422 " +
					"with the verdict in the problem; a conflict is 412 when If-Match named the version and 409 when the body's expect did; invalid is 400.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
}

// JSON and YAML are the OpenAPI 3.1 document.

// JSON returns the OpenAPI document as JSON.
func (a *API) JSON() []byte { return slices.Clone(a.docs.json) }

// YAML returns the OpenAPI document as YAML.
func (a *API) YAML() []byte { return slices.Clone(a.docs.yaml) }

// serveDocument makes the documents and serves them.
func (a *API) serveDocument() (err error) {
	doc := a.huma.OpenAPI()
	if a.docs.json, err = doc.MarshalJSON(); err != nil {
		return err
	}
	if a.docs.yaml, err = doc.YAML(); err != nil {
		return err
	}
	for path, file := range map[string]struct {
		kind string
		body []byte
	}{"/openapi.json": {"application/json", a.docs.json}, "/openapi.yaml": {"application/yaml", a.docs.yaml}} {
		a.routes = append(a.routes, Route{Method: http.MethodGet, Path: path, ID: "document" + path, Role: auth.Any})
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = w.Write(file.body) // the client may have gone
		})
	}
	slices.SortStableFunc(a.routes[len(a.routes)-2:], func(x, y Route) int {
		if x.Path < y.Path {
			return -1
		}
		return 1
	})
	return nil
}

// nullable are the fields that hold an object or null, by schema. huma knows null
// for simple values only.
var nullable = map[string][]string{
	"Why":         {"last_progress", "next_deadline"},
	"SourceFacts": {"worker"},
}

// finish makes the document say what the types cannot.
func finish(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	for name, fields := range nullable {
		for _, field := range fields {
			s := schemas[name].Properties[field]
			schemas[name].Properties[field] = &huma.Schema{OneOf: []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}}
		}
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op != nil {
				finishOperation(op)
			}
		}
	}
	taken := requestSchemas(doc)
	for name := range maps.Keys(schemas) {
		// An answer may have more fields in a later version; a request may not.
		if !taken[name] && schemas[name].AdditionalProperties == false {
			schemas[name].AdditionalProperties = nil
		}
	}
}

// finishOperation says what an operation answers when something fails: each status
// of its own, and default for those that any operation can have.
func finishOperation(op *huma.Operation) {
	delete(op.Responses, "500")
	if op.Metadata[judgesKey] == nil {
		delete(op.Responses, "422") // huma's own; a request that is not valid is 400 here
	}
	op.Responses["default"] = &huma.Response{
		Description: "What any operation can answer: 400, 401, 403, 429, 500, 503, 504",
		Content:     map[string]*huma.MediaType{TypeProblem: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}},
	}
	if op.RequestBody != nil {
		delete(op.RequestBody.Content, "application/octet-stream") // what is read by our decoder
	}
}

// requestSchemas are the schemas of bodies that are taken.
func requestSchemas(doc *huma.OpenAPI) map[string]bool {
	taken := map[string]bool{}
	for _, item := range doc.Paths {
		if item.Post == nil || item.Post.RequestBody == nil {
			continue
		}
		for _, m := range item.Post.RequestBody.Content {
			if m.Schema != nil && m.Schema.Ref != "" {
				taken[m.Schema.Ref[len("#/components/schemas/"):]] = true
			}
		}
	}
	return taken
}
