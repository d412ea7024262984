package api

import "github.com/musterhq/muster/domain"

// The names of the queries; bus.QuerySubject makes a subject of one.
const (
	GetQuery      = "accounts.get"  // GetRequest → Account
	ListQuery     = "accounts.list" // ListRequest → Page
	StatsQuery    = "stats"         // StatsRequest → stats.Stats (package projections/stats)
	DigestQuery   = "digest"        // DigestRequest → Digest
	MachinesQuery = "machines"      // MachinesRequest → Machines
	WorkersQuery  = "workers"       // WorkersRequest → Workers
)

// The bounds of ListRequest.Limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// AsOf is a position of a view: for each partition the sequence of the last
// event folded. In JSON the keys are the partition numbers as text.
type AsOf map[int]uint64

// GetRequest asks for one account.
type GetRequest struct {
	Account string `json:"account"`
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// ListRequest asks for one page of accounts, in the order of their ids by
// bytes. Filters that are empty do not filter; all others must hold at once.
type ListRequest struct {
	Prefix    string            `json:"prefix,omitempty"`    // of the account id
	Machine   string            `json:"machine,omitempty"`   // exact, e.g. whatsapp@2
	State     string            `json:"state,omitempty"`     // exact
	Class     string            `json:"class,omitempty"`     // exact, e.g. ready
	Condition string            `json:"condition,omitempty"` // has a condition of this name
	Desired   string            `json:"desired,omitempty"`   // run or stop
	Source    string            `json:"source,omitempty"`    // the account's source, exact
	Attention string            `json:"attention,omitempty"` // asks for a human for this, e.g. scan_qr
	Labels    map[string]string `json:"labels,omitempty"`    // all of them, with these values
	// In its state since this time or later, and since before this one: RFC 3339.
	SinceFrom   string `json:"since_from,omitempty"`
	SinceBefore string `json:"since_before,omitempty"`
	After       string `json:"after,omitempty"` // the page begins behind this id
	Limit       int    `json:"limit,omitempty"` // 0 = DefaultLimit; above MaxLimit is invalid
	WaitFor     AsOf   `json:"wait_for,omitempty"`
}

// Page is one page of accounts.
type Page struct {
	Accounts []domain.AccountView `json:"accounts"`
	Next     string               `json:"next,omitempty"` // After of the next page; absent on the last one
	AsOf     AsOf                 `json:"as_of"`
}

// Account is one account as the fold of its history tells it.
type Account struct {
	domain.AccountView
	AsOf AsOf `json:"as_of"`
}

// StatsRequest asks for the fleet's numbers; the answer is a stats.Stats.
type StatsRequest struct {
	WaitFor AsOf `json:"wait_for,omitempty"`
}

// DigestRequest asks for the digest of the whole fleet's state.
type DigestRequest struct {
	WaitFor AsOf `json:"wait_for,omitempty"`
}

// Digest names the state of the whole fleet in one value: two servers, or a
// server and a replay, with the same digest hold the same state.
type Digest struct {
	Digest   string `json:"digest"` // "sha256:" and 64 hex digits
	Accounts int    `json:"accounts"`
	AsOf     AsOf   `json:"as_of"`
}

// MachinesRequest asks for the machines that the server judges by.
type MachinesRequest struct {
	Name string `json:"name,omitempty"` // "" = all, without their definitions
}

// Machines is the answer to a MachinesRequest.
type Machines struct {
	Machines []Machine `json:"machines"` // by name
}

// Machine describes one machine in numbers and, when it was asked for by name,
// as the text of a machine file and of its diagrams.
type Machine struct {
	Name       string `json:"name"`
	Initial    string `json:"initial"`
	States     int    `json:"states"`
	Triggers   int    `json:"triggers"`
	Edges      int    `json:"edges"`
	Origin     string `json:"origin"`               // "built-in", or the file it was read from
	Definition string `json:"definition,omitempty"` // YAML
	Mermaid    string `json:"mermaid,omitempty"`    // its diagram as text for Mermaid
	DOT        string `json:"dot,omitempty"`        // and for Graphviz
}

// WorkersRequest asks for all workers that are known.
type WorkersRequest struct {
	WaitFor AsOf `json:"wait_for,omitempty"`
}

// Workers is the answer to a WorkersRequest.
type Workers struct {
	Workers []Worker `json:"workers"` // by name
	AsOf    AsOf     `json:"as_of"`   // up to where the accounts were counted
}

// Worker is a process that hosts connections, as its beats tell it.
type Worker struct {
	Name      string  `json:"name"`
	Boot      string  `json:"boot"`         // of its last run; "" = not known
	State     string  `json:"state"`        // live, lapsed, left (it said goodbye), expected (not heard yet since the start)
	LastBeat  string  `json:"last_beat"`    // RFC 3339: its last sign of life
	BeatAge   float64 `json:"beat_age_s"`   // how long ago that was, in seconds
	BeatEvery float64 `json:"beat_every_s"` // the interval that it promised, in seconds
	Accounts  int     `json:"accounts"`     // whose source it is: those that it vouches for while it lives
}
