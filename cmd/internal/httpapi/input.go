package httpapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
)

// HeaderAsOf and HeaderWaitFor carry a position: where a write stands, and what an
// answer must have seen.
const (
	HeaderAsOf    = "Muster-As-Of"
	HeaderWaitFor = "Muster-Wait-For"
)

// position is a position as a parameter: 0:12,1:7, or as_of as it stands in
// answers, {"0":12,"1":7}.
type position struct{ asOf api.AsOf }

// UnmarshalText reads a position.
func (p *position) UnmarshalText(text []byte) error {
	if strings.HasPrefix(string(text), "{") {
		var asOf api.AsOf
		if err := json.Unmarshal(text, &asOf); err != nil {
			return fmt.Errorf("%q is no position; it is as_of of an answer, or written 0:12,1:7", text)
		}
		text = []byte(live.Position(asOf).String()) // the same rules for both forms
	}
	read, err := live.ParsePosition(string(text))
	if err != nil {
		return err
	}
	p.asOf = api.AsOf(read)
	return nil
}

// Schema describes it.
func (*position) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"0:12,1:7"}}
}

// Waits is the input of questions that can wait for a position.
type Waits struct {
	Query  position `query:"wait_for" doc:"answer when everything up to this position is seen: as_of of an answer, or 0:12,1:7"`
	Header position `header:"Muster-Wait-For" doc:"the same as wait_for"`
}

func (w *Waits) waitFor() api.AsOf {
	if w.Query.asOf != nil {
		return w.Query.asOf
	}
	return w.Header.asOf
}

// PageOf is the input of questions that are answered in pages.
type PageOf struct {
	After string `query:"after" doc:"next of the page before"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" doc:"rows of a page (default 100)"`
}

// WithLabels is the input of questions that ask for accounts with labels.
type WithLabels struct {
	Label []string `query:"label,explode" doc:"name=value of a label; of several all must hold" example:"pool=eu"`
}

func (l *WithLabels) labels() (map[string]string, error) {
	var m map[string]string
	for _, text := range l.Label {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fault("query.label", fmt.Sprintf("%q is no label; it is written name=value", text))
		}
		if was, twice := m[name]; twice && was != value {
			return nil, fault("query.label", fmt.Sprintf("%s is asked for twice, as %q and as %q", name, was, value))
		}
		if m == nil {
			m = map[string]string{}
		}
		m[name] = value
	}
	return m, nil
}

// OfAccount is the input of everything about one account.
type OfAccount struct {
	Account string `path:"account" doc:"the account's id, percent-encoded" example:"acct-1"`
}

// Verdict is a verdict as it stands in every answer of Muster.
type Verdict struct{ bus.Reply }

// Schema describes it: its JSON is made by hand.
func (*Verdict) Schema(r huma.Registry) *huma.Schema {
	const name = "Verdict"
	if schemas := r.Map(); schemas[name] == nil {
		schemas[name] = verdictSchema(r)
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

func verdictSchema(r huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "What became of a trigger.",
		Required:    []string{"account", "key", "trigger", "outcome", "from", "to", "version", "reason", "as_of"},
		Properties: map[string]*huma.Schema{
			"account": text, "trigger": text, "from": text, "to": text,
			"key":     {Type: huma.TypeString, Description: "the message or contact it is about"},
			"outcome": {Type: huma.TypeString, Enum: outcomes("applied", "noop", "stale", "rejected", "duplicate", "conflict", "invalid")},
			"earlier": {Type: huma.TypeString, Enum: outcomes("applied", "noop", "stale", "rejected"), Description: "of a duplicate: its outcome the first time"},
			"version": {Type: huma.TypeInteger, Format: "int64", Description: "of the account"},
			"reason":  {Type: huma.TypeString, Description: "why it was rejected, stale, a conflict or invalid"},
			"as_of":   huma.SchemaFromType(r, typeOf[api.AsOf]()),
		},
	}
}

func outcomes(names ...any) []any { return names }

// schemaName names a type's schema. Names of package stats that stand elsewhere,
// too, get its name before them.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(t.PkgPath(), "projections/stats") && name != "Stats" {
		return "Stats" + name
	}
	return name
}

// typeOf is the type of a value that only describes.
func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
