package auth

import (
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/eventlog"
)

// queries says who may ask each question on the bus. What is not in it is for
// admins only.
var queries = map[string]Role{
	api.GetQuery: Any, api.CanQuery: Any,

	api.ListQuery: Reader, api.StatsQuery: Reader, api.DigestQuery: Reader, api.MachinesQuery: Reader, api.WorkersQuery: Reader,
	api.ConnectorsQuery: Reader, api.InboxQuery: Reader, api.RouteQuery: Reader, api.MessageQuery: Reader, api.MessagesQuery: Reader,
	api.ConversationQuery: Reader, api.ConversationsQuery: Reader, api.AttentionQuery: Reader, api.TimelineQuery: Reader,
	api.WhyQuery: Reader, api.AlertsQuery: Reader, api.DeliveriesQuery: Reader, api.FacetsQuery: Reader, api.DistributionQuery: Reader,
	api.HistoryQuery: Reader, api.ReadyTimeQuery: Reader, api.TransitionsQuery: Reader,

	api.ProjectionsQuery: Reader, api.RebuildQuery: Operator,

	api.ResendQuery: Operator, api.TestAlertQuery: Operator, api.ActQuery: Operator,
	api.InboxRetryQuery: Operator, api.InboxDropQuery: Operator,

	api.TokenCreateQuery: Admin, api.TokensQuery: Admin, api.TokenRevokeQuery: Admin,
}

// QueryNeeds is the role that a question on the bus needs.
func QueryNeeds(name string) (need Role, known bool) {
	need, known = queries[name]
	if !known {
		need = Admin
	}
	return need, known
}

// streamCalls are the calls of JetStream by which a stream is read, each with the
// stream's name behind it.
var streamCalls = []string{
	"STREAM.INFO.%", "STREAM.MSG.GET.%", "DIRECT.GET.%", "DIRECT.GET.%.>", "CONSUMER.CREATE.%", "CONSUMER.CREATE.%.>",
	"CONSUMER.DURABLE.CREATE.%.>", "CONSUMER.INFO.%.>", "CONSUMER.MSG.NEXT.%.>",
}

// readStreams are the subjects by which the event streams are read.
func readStreams(partitions int) []string {
	out := []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.FC.>"}
	for p := range partitions {
		name := eventlog.StreamName(p)
		for _, c := range streamCalls {
			out = append(out, "$JS.API."+strings.Replace(c, "%", name, 1))
		}
		out = append(out, "$JS.ACK."+name+".>")
	}
	return out
}

// grant is what a token may do on the bus of a log with so many partitions. What
// an operator or a connector says, it says in its token's name or in that of a
// source, so that it is known who has said it.
func (t *Token) grant(partitions int) bus.Grant {
	g := bus.Grant{Name: t.ID, Until: t.Expires}
	if t.Role == Admin {
		return g
	}
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		if t.Role.Meets(queries[name]) {
			g.Publish = append(g.Publish, bus.NamedQuery(t.ID, name))
			if queries[name] != Operator {
				g.Publish = append(g.Publish, bus.QuerySubject(name))
			}
		}
	}
	g.Subscribe = []string{bus.FeedSubjects, bus.InboxPrefix(t.ID) + ".>"}
	if t.Role.Meets(Connector) {
		own := bus.Speaker{Token: t.ID}
		g.Publish = append(g.Publish, own.Commands(), own.Inboxes())
	}
	if t.Role == Connector {
		for _, s := range t.Sources {
			speaker := bus.Speaker{Source: s}
			g.Publish = append(g.Publish, speaker.Commands(), speaker.Inboxes(), bus.HelloSubject(s), bus.BeatSubject(s), bus.GoodbyeSubject(s))
		}
		return g
	}
	g.Publish = append(g.Publish, readStreams(partitions)...)
	g.Subscribe = append(g.Subscribe, "_INBOX.>") // answers of questions that every reader may ask
	if t.Role == Operator {
		g.Publish = append(g.Publish, bus.WorkerSubjects)
	}
	return g
}
