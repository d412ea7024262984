package api

import "github.com/musterhq/muster/projections/stats"

// The names of the questions about the fleet as a whole.
const (
	FacetsQuery       = "accounts.facets"      // FacetsRequest → Facets
	DistributionQuery = "distribution"         // DistributionRequest → Distribution
	HistoryQuery      = "distribution.history" // HistoryRequest → History
	ReadyTimeQuery    = "time-to-running"      // ReadyTimeRequest → ReadyTime
	TransitionsQuery  = "transitions"          // TransitionsRequest → Transitions
)

// FacetsRequest asks how many accounts each filter of a ListRequest would find,
// among those that its own filters find. After and Limit are not looked at.
type FacetsRequest struct {
	ListRequest
	WaitFor AsOf `json:"wait_for,omitempty"`
}

// Facets counts the accounts by what they can be filtered by.
type Facets struct {
	Accounts   int                       `json:"accounts"`
	Machines   map[string]int            `json:"machines"`
	States     map[string]int            `json:"states"`
	Classes    map[string]int            `json:"classes"`
	Labels     map[string]map[string]int `json:"labels"`     // name → value → accounts
	Conditions map[string]int            `json:"conditions"` // by name
	Sources    map[string]int            `json:"sources"`    // "" = no source has spoken
	Desired    map[string]int            `json:"desired"`
	Attention  map[string]int            `json:"attention"` // by kind; who asks for two things counts in both
	Damaged    int                       `json:"damaged"`   // whose history is not whole
	AsOf       AsOf                      `json:"as_of"`
}

// DistributionRequest asks how many accounts are, or were, in which state.
type DistributionRequest struct {
	At      string `json:"at,omitempty"`    // RFC 3339; empty = now
	Label   string `json:"label,omitempty"` // name of a label: count by its values, too. Not with at
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// Distribution is the answer to a DistributionRequest.
type Distribution struct {
	At      string            `json:"at,omitempty"` // the instant that was asked for
	Counts                    // of all accounts
	ByLabel map[string]Counts `json:"by_label,omitempty"` // by the value of the label
	AsOf    AsOf              `json:"as_of"`
}

// Counts are numbers of accounts.
type Counts struct {
	Accounts  int                       `json:"accounts"`
	States    map[string]int            `json:"states"`     // over all machines
	Classes   map[string]int            `json:"classes"`    // "" = of states that no machine has any more
	ByMachine map[string]map[string]int `json:"by_machine"` // machine → state → accounts
}

// HistoryRequest asks how the distribution was, bucket by bucket.
type HistoryRequest struct {
	Step    string `json:"step,omitempty"` // minute (of the last 24 hours) or hour (of the last 90 days); empty = minute
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// History is how many accounts were in which state at the end of each bucket.
type History struct {
	Step   string   `json:"step"`
	Width  float64  `json:"width_s"` // of a bucket, in seconds
	Start  string   `json:"start"`   // where the first bucket begins
	Series []Series `json:"series"`  // by machine and state; states in which nobody ever was are left out
	AsOf   AsOf     `json:"as_of"`
}

// Series is the history of one state.
type Series struct {
	Machine string  `json:"machine"`
	State   string  `json:"state"`
	Class   string  `json:"class"`
	Counts  []int64 `json:"counts"` // the last bucket has not ended: it says how many are in the state now
}

// ReadyTimeRequest asks how long accounts take to reach RUNNING.
type ReadyTimeRequest struct {
	By string `json:"by,omitempty"` // machine, source, label or reason; empty = only all together
	// Window is a duration such as 24h: only what began in so much time up to now,
	// from a full hour on, or beyond 48h from a midnight (UTC) on, 90 days at most.
	// Not with by.
	Window  string `json:"window,omitempty"`
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// ReadyTime is how long accounts take, all together and by group.
type ReadyTime struct {
	stats.TimeToRunning
	By     string                         `json:"by,omitempty"`
	From   string                         `json:"from,omitempty"`   // where the window begins
	Groups map[string]stats.TimeToRunning `json:"groups,omitempty"` // what goes beyond 256 groups of a partition is in "other"
	AsOf   AsOf                           `json:"as_of"`
}

// TransitionsRequest asks what happens in the fleet.
type TransitionsRequest struct {
	Minutes int    `json:"minutes,omitempty"` // with a count for each of the last minutes, 1440 at most; 0 = without
	Window  string `json:"window,omitempty"`  // a duration up to 1h: which accounts were lost how often in so much time up to now; "" = without
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// Flapping is which accounts come and go.
type Flapping struct {
	// Accounts have the condition flapping now; Machines and Sources count them.
	Accounts int            `json:"accounts"`
	Machines map[string]int `json:"machines"`
	Sources  map[string]int `json:"sources"`

	Window float64 `json:"window_s"`
	Lost   []Lost  `json:"lost"`  // accounts that moved into DISCONNECTED twice or more often in the window, most often first, 100 at most
	Whole  bool    `json:"whole"` // false: so many accounts were lost that not all are known
}

// Lost is how often one account was lost in a window.
type Lost struct {
	Account  string `json:"account"`
	Machine  string `json:"machine"`
	State    string `json:"state"`
	Source   string `json:"source"`
	Times    int    `json:"times"`
	Last     string `json:"last"`
	Flapping bool   `json:"flapping"` // it has the condition
}

// Transitions is what happened: since the beginning and, when it was asked for,
// minute by minute.
type Transitions struct {
	stats.Transitions
	Rejected  []stats.Edge      `json:"rejected"`   // by state and trigger; to is ""
	LoggedOut stats.LoggedOut   `json:"logged_out"` // into LOGGED_OUT, by reason code
	Outcomes  map[string]uint64 `json:"outcomes"`
	PerMinute *PerMinute        `json:"per_minute,omitempty"`
	Flapping  *Flapping         `json:"flapping,omitempty"`
	AsOf      AsOf              `json:"as_of"`
}

// PerMinute is how often each edge was taken, minute by minute. Edges that were
// not taken in that time are left out.
type PerMinute struct {
	Start    string       `json:"start"` // where the first minute begins
	Edges    []EdgeSeries `json:"edges"`
	Rejected []EdgeSeries `json:"rejected"`
}

// EdgeSeries is one edge's counts.
type EdgeSeries struct {
	From    string   `json:"from"`
	Trigger string   `json:"trigger"`
	To      string   `json:"to"` // "" of a rejected one
	Counts  []uint64 `json:"counts"`
}

// Claimed is the answer to a claim.
type Claimed struct {
	Account string `json:"account"`
	Contact string `json:"contact"`
	Message string `json:"message"`
	Side    string `json:"side"`
	Handler string `json:"handler"`
	Granted bool   `json:"granted"`
	Outcome string `json:"outcome"` // applied: granted now; noop: it was granted to this handler before; rejected: not granted
	Reason  string `json:"reason"`  // why not: already_claimed, human_in_charge, bot_in_charge or ended
	State   string `json:"state"`   // of the conversation
	Version uint64 `json:"version"` // of the account
	AsOf    AsOf   `json:"as_of"`
}
