// Package all lists the kinds of connectors: the one place that knows them all,
// with the settings that each takes.
//
// It owns nothing else. A kind that is not listed here cannot be configured.
package all

import (
	"slices"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/cloud"
	"github.com/musterhq/muster/bus/connector/cloudevents"
	"github.com/musterhq/muster/bus/connector/evolution"
	"github.com/musterhq/muster/bus/connector/eyun"
	"github.com/musterhq/muster/bus/connector/gewechat"
	"github.com/musterhq/muster/bus/connector/mautrix"
	"github.com/musterhq/muster/bus/connector/plain"
	"github.com/musterhq/muster/bus/connector/waha"
	"github.com/musterhq/muster/bus/connector/wuzapi"
	"github.com/musterhq/muster/domain"
)

// Kind is one kind of connector and what its sources can be told.
type Kind struct {
	Name string
	// New returns the connector. The judge knows the triggers and machines that
	// senders may name.
	New func(judge *domain.Judge) connector.Connector
	// Auth are the ways in which the peer can prove itself, the usual one first;
	// empty: there is one way only.
	Auth []string
	// Takes are the settings beside the secret that mean something: the names of
	// fields of [connector.Settings], and "poll".
	Takes []string
}

// kinds is the table, by name.
var kinds = []Kind{
	{Name: cloud.Kind, New: func(*domain.Judge) connector.Connector { return cloud.New() }, Takes: []string{"verify_token", "waba_numbers"}},
	{Name: cloudevents.Kind, New: func(j *domain.Judge) connector.Connector { return cloudevents.New(j) }},
	{
		Name: evolution.Kind, New: func(*domain.Judge) connector.Connector { return evolution.New() },
		Auth: []string{"header", "jwt", "body_apikey"}, Takes: []string{"auth", "utc_offset", "poll"},
	},
	{Name: eyun.Kind, New: func(*domain.Judge) connector.Connector { return eyun.New() }},
	{Name: gewechat.Kind, New: func(*domain.Judge) connector.Connector { return gewechat.New() }},
	{Name: mautrix.Kind, New: func(*domain.Judge) connector.Connector { return mautrix.New() }},
	{Name: plain.Kind, New: func(j *domain.Judge) connector.Connector { return plain.New(j) }},
	{Name: waha.Kind, New: func(*domain.Judge) connector.Connector { return waha.New() }, Takes: []string{"poll"}},
	{Name: wuzapi.Kind, New: func(*domain.Judge) connector.Connector { return wuzapi.New() }},
}

// Kinds lists the kinds by name.
func Kinds() []Kind { return slices.Clone(kinds) }

// Names lists the kinds' names, sorted.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

// Named returns the kind of a name.
func Named(name string) (Kind, bool) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}
