package api

// ConnectorsQuery asks for the sources of webhooks: ConnectorsRequest → Connectors.
const ConnectorsQuery = "connectors"

// ConnectorsRequest asks for the configured sources and what they have sent.
type ConnectorsRequest struct {
	Samples bool `json:"samples,omitempty"` // with the last units that nobody could map
}

// Connectors is the sources of this server, by kind and name. The numbers count
// from its start.
type Connectors struct {
	Connectors []Connector `json:"connectors"`
}

// Connector is one source of webhooks. A delivery is the smallest unit that a body
// holds: one event, one status, one message.
type Connector struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Path     string `json:"path"` // of its webhooks
	Requests int64  `json:"requests"`
	Last     string `json:"last"` // RFC 3339: its last request that arrived whole; "" = none did

	Facts      int64            `json:"facts"` // deliveries of which triggers were judged
	Duplicates int64            `json:"duplicates"`
	Ignored    int64            `json:"ignored"`  // known, and of no interest
	Unmapped   int64            `json:"unmapped"` // not known
	Outcomes   map[string]int64 `json:"outcomes"` // of the triggers

	// Requests of which nothing was kept.
	Unauthenticated int64  `json:"unauthenticated"`
	Malformed       int64  `json:"malformed"`
	TooLarge        int64  `json:"too_large"`
	Aborted         int64  `json:"aborted"`      // the body did not arrive, or not in time
	Unavailable     int64  `json:"unavailable"`  // they were told to come again
	LastRefusal     string `json:"last_refusal"` // why the last one was not believed; "" = all were

	Poll    *Poll        `json:"poll,omitempty"`    // none: its server is not asked
	Samples []HookSample `json:"samples,omitempty"` // oldest first
}

// Poll is what came of asking a source's server for its sessions.
type Poll struct {
	Last      string `json:"last"`     // RFC 3339: the last poll that succeeded; "" = none has
	Sessions  int    `json:"sessions"` // that the server listed then
	Polls     int64  `json:"polls"`    // that succeeded
	Failures  int64  `json:"failures"`
	Published int64  `json:"published"` // triggers, because state and list differed or to end a doubt
	Vanished  int64  `json:"vanished"`  // accounts that were stopped because the server has them no more
	LastError string `json:"last_error"`
}

// HookSample is what was kept of a unit that nobody could map: names, ids, times,
// codes and states only.
type HookSample struct {
	At   string         `json:"at"`
	What string         `json:"what"`
	Kept map[string]any `json:"kept"`
}
