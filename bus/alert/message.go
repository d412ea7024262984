package alert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
)

// Message is the body of an alert. The same alert has the same body in every try.
type Message struct {
	Type      Type   `json:"type"`
	Timestamp string `json:"timestamp"` // RFC 3339: when the alert was made
	Data      Data   `json:"data"`
}

// Data is what an alert is about. Times are RFC 3339.
type Data struct {
	Account  string            `json:"account,omitempty"`  // of attention.*
	Incident string            `json:"incident,omitempty"` // the group; what mutes and acknowledgements can name
	Kind     string            `json:"kind,omitempty"`     // what it is told for
	Kinds    []string          `json:"kinds,omitempty"`    // all that the account needs now, the most pressing first; of an incident: its kind
	Source   string            `json:"source"`
	Reason   string            `json:"reason"` // a code, a state, or the trigger that began it
	Since    string            `json:"since,omitempty"`
	Ended    string            `json:"ended,omitempty"` // of *.closed
	Labels   map[string]string `json:"labels,omitempty"`
	Accounts []string          `json:"accounts,omitempty"` // of incident.*: the first few by id
	Counts   *DataCounts       `json:"counts,omitempty"`   // of incident.*
	Why      string            `json:"why"`                // one sentence
	Do       string            `json:"do"`                 // what a human does about it
}

// DataCounts are the numbers of an incident.
type DataCounts struct {
	Accounts int `json:"accounts"` // opened: all that it has now; reminder: those that still need somebody; closed: all that it had
	Open     int `json:"open"`     // those whose need still stands
}

// alertOf is an alert about one account's need.
func (c *Core) alertOf(t Type, g *group, i *item, now time.Time) *Delivery {
	k := domain.AttentionNamed(i.Kind)
	data := Data{
		Account: i.Account, Incident: g.ID, Kind: i.Kind, Kinds: c.kindsOf(i), Source: i.Source, Reason: i.Reason,
		Since: domain.FormatTime(i.Since), Labels: i.Labels, Why: c.describe(domain.AccountID(i.Account), i.Kind, i.Reason), Do: k.Do,
	}
	if t == AttentionClosed {
		data.Ended, data.Do = domain.FormatTime(now.UnixNano()), "Nothing: it is over."
	}
	nth := 0
	if t == AttentionReminder {
		nth = g.Nth + 1
	}
	return &Delivery{
		ID:       nameOf("alert_", t, i.Kind, i.Account, i.Part, i.Seq, g.Endpoint, nth),
		Endpoint: g.Endpoint, Type: t, Kind: i.Kind, Account: i.Account, Incident: g.ID, Trace: i.Trace, Body: bodyOf(t, data, now),
	}
}

// kindsOf lists what the account of a need needs, the most pressing first.
func (c *Core) kindsOf(i *item) []string {
	kinds := slices.Collect(maps.Keys(c.st.items[i.Account]))
	slices.SortFunc(kinds, func(a, b string) int { return domain.AttentionRank(a) - domain.AttentionRank(b) })
	return kinds
}

// incidentAlert is an alert about many accounts' need.
func (c *Core) incidentAlert(t Type, g *group, accounts int, sample []string, now time.Time) *Delivery {
	k := domain.AttentionNamed(g.Kind)
	data := Data{
		Incident: g.ID, Kind: g.Kind, Kinds: []string{g.Kind}, Source: g.Source, Reason: g.Reason, Since: domain.FormatTime(g.Since),
		Accounts: sample, Counts: &DataCounts{Accounts: accounts, Open: g.open()}, Do: k.Do,
	}
	data.Why = fmt.Sprintf("%d accounts%s need a human for one reason%s: %s.", accounts, of(" of ", g.Source), of(", ", g.Reason), k.About)
	if t == IncidentClosed {
		data.Ended, data.Do = domain.FormatTime(now.UnixNano()), "Nothing: it is over."
		data.Why = fmt.Sprintf("None of the %d accounts%s needs a human for this any more%s: %s.", accounts, of(" of ", g.Source), of(", ", g.Reason), k.About)
	}
	nth := 0
	if t == IncidentReminder {
		nth = g.Nth + 1
	}
	return &Delivery{
		ID:       nameOf("alert_", t, g.ID, g.Endpoint, nth),
		Endpoint: g.Endpoint, Type: t, Kind: g.Kind, Incident: g.ID, Trace: c.traceOf(g, sample), Body: bodyOf(t, data, now),
	}
}

// traceOf is the trace context of an incident: that of the first account named
// which has one.
func (c *Core) traceOf(g *group, sample []string) string {
	for _, a := range sample {
		if i := c.st.items[a][g.Kind]; i != nil && i.Trace != "" {
			return i.Trace
		}
	}
	return ""
}

func of(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func bodyOf(t Type, data Data, now time.Time) string {
	b, err := json.Marshal(Message{t, domain.FormatTime(now.UnixNano()), data})
	if err != nil { // texts and numbers only: cannot be
		panic(fmt.Sprintf("alert: encode a message: %v", err))
	}
	return string(b)
}
