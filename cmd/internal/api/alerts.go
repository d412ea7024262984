package api

// The names of what is asked about alerts and done by operators.
const (
	AlertsQuery     = "alerts.list"       // AlertsRequest → Alerts
	DeliveriesQuery = "alerts.deliveries" // DeliveriesRequest → Deliveries
	ResendQuery     = "alerts.resend"     // ResendRequest → Resent
	TestAlertQuery  = "alerts.test"       // TestAlertRequest → Delivery
	ActQuery        = "operator.act"      // ActRequest → Action
)

// AlertsRequest asks what was told and is not over.
type AlertsRequest struct{}

// Alerts is what was told or will be, and what operators have said about it.
type Alerts struct {
	Endpoints []AlertEndpoint `json:"endpoints"` // as they are configured
	Open      []OpenAlert     `json:"open"`      // the one that began last first
	Debounced int             `json:"debounced"` // needs that are not told yet, for they may heal
	Mutes     []Action        `json:"mutes"`     // in force
	Acks      []Action        `json:"acks"`
	Counts    AlertCounts     `json:"counts"`
}

// AlertEndpoint is somebody who is told.
type AlertEndpoint struct {
	Name     string `json:"name"`
	Waiting  int    `json:"waiting"`            // alerts that are not delivered yet
	Disabled string `json:"disabled,omitempty"` // since when: it has answered 410
}

// OpenAlert is what one endpoint was told of, or will be, as one thing.
type OpenAlert struct {
	Endpoint string   `json:"endpoint"`
	Incident string   `json:"incident"` // its id
	Kind     string   `json:"kind"`
	Source   string   `json:"source"`
	Reason   string   `json:"reason"`
	Since    string   `json:"since"`
	Accounts int      `json:"accounts"` // whose need still stands
	Status   string   `json:"status"`   // waiting, muted, told, acknowledged
	Grouped  bool     `json:"grouped"`  // told as an incident, not one by one
	Sample   []string `json:"sample"`   // the first few accounts by id
}

// AlertCounts are what happened since the process began to make alerts.
type AlertCounts struct {
	Opened    uint64 `json:"opened"`
	Healed    uint64 `json:"healed"` // ended before they were told
	Muted     uint64 `json:"muted"`
	Made      uint64 `json:"made"`
	Delivered uint64 `json:"delivered"`
	Failed    uint64 `json:"failed"` // tries that were or will be repeated
	Dead      uint64 `json:"dead"`
}

// DeliveriesRequest asks for deliveries, the one made last first. What is empty
// does not filter.
type DeliveriesRequest struct {
	Endpoint string `json:"endpoint,omitempty"`
	Account  string `json:"account,omitempty"`
	Status   string `json:"status,omitempty"` // pending, delivered, dead
	Limit    int    `json:"limit,omitempty"`  // 0 = DefaultLimit; above MaxLimit is invalid
}

// Deliveries is the answer to a DeliveriesRequest.
type Deliveries struct {
	Deliveries []Delivery `json:"deliveries"`
}

// Delivery is one alert on its way to one endpoint.
type Delivery struct {
	ID       string `json:"id"` // the webhook-id
	Endpoint string `json:"endpoint"`
	Type     string `json:"type"`
	Kind     string `json:"kind,omitempty"`
	Account  string `json:"account,omitempty"`
	Incident string `json:"incident,omitempty"`
	Status   string `json:"status"`
	Attempts int    `json:"attempts"`
	Made     string `json:"made"`
	Next     string `json:"next,omitempty"` // when it is tried next, while it is pending
	Done     string `json:"done,omitempty"` // when it was delivered or given up
	Code     int    `json:"code,omitempty"` // the last HTTP status
	Error    string `json:"error,omitempty"`
	Body     string `json:"body"`
}

// ResendRequest asks that deliveries which are done are sent once more, under the
// ids that they had: one, or all that are dead.
type ResendRequest struct {
	ID       string `json:"id,omitempty"`
	Dead     bool   `json:"dead,omitempty"`
	Endpoint string `json:"endpoint,omitempty"` // with dead: only those of this one
}

// Resent says how many are sent again.
type Resent struct {
	Done int `json:"done"`
}

// TestAlertRequest asks for a test alert. The answer comes when it was tried.
type TestAlertRequest struct {
	Endpoint string `json:"endpoint"`
}

// ActRequest is something that an operator does.
type ActRequest struct {
	Action string            `json:"action"` // mute, unmute, ack
	Target map[string]string `json:"target"` // account, source, kind, incident; for unmute also id: all must fit
	By     string            `json:"by"`
	Reason string            `json:"reason,omitempty"`
	Until  string            `json:"until,omitempty"` // RFC 3339; empty = for ever
}

// Action is what an operator did.
type Action struct {
	ID     string            `json:"id"`
	At     string            `json:"at"`
	By     string            `json:"by"`
	Action string            `json:"action"`
	Target map[string]string `json:"target"`
	Reason string            `json:"reason"`
	Until  string            `json:"until,omitempty"`
}
