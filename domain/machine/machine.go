// Package machine says what a machine is: a named, versioned transition table
// as data, its check, its compiled form, and its drawings.
//
// It owns [Definition] (what a table says), [Compile] (which finds every fault
// of a definition and names it), [Machine] (the dense form that the judge looks
// things up in) and [Registry] (the machines a process knows). The built-in
// definitions are in package lifecycle; a user's own come from files of the
// same shape.
//
// Authoritative is the definition: a Machine is made from it and holds nothing
// else. Nothing here fails at run time: what is wrong with a table is said when
// it is compiled, as [Faults], and a look-up of a name that the table does not
// have answers "rejected".
package machine

// Definition is a machine as data. The zero value of a field means "none".
type Definition struct {
	Name       string            `json:"name" yaml:"name"`                                 // e.g. "whatsapp@2": a name, @, a version number
	Family     string            `json:"family,omitempty" yaml:"family,omitempty"`         // what it is a table for: session (the default), message or conversation
	About      string            `json:"about,omitempty" yaml:"about,omitempty"`           // one sentence for a reader
	Initial    string            `json:"initial" yaml:"initial"`                           // the state of an account without events
	States     []State           `json:"states" yaml:"states"`                             //
	Triggers   []string          `json:"triggers" yaml:"triggers"`                         // every trigger that the table knows, in the order of its rows
	Edges      []Edge            `json:"edges" yaml:"edges"`                               // what is not named by an edge is rejected
	Choices    []Choice          `json:"choices,omitempty" yaml:"choices,omitempty"`       // targets that depend on the conditions
	Messages   string            `json:"messages,omitempty" yaml:"messages,omitempty"`     // the machine of its accounts' messages; empty: message@2
	Conditions []string          `json:"conditions,omitempty" yaml:"conditions,omitempty"` // built-in conditions that the machine has beside the common ones
	Authority  bool              `json:"authority,omitempty" yaml:"authority,omitempty"`   // one source is believed, the first that speaks
	Tickets    bool              `json:"tickets,omitempty" yaml:"tickets,omitempty"`       // sid and tgt with their ends, and a sync cursor
	Beats      Duration          `json:"beats,omitempty" yaml:"beats,omitempty"`           // longest silence of heartbeats while ready; then connection_lost
	Deadlines  []Deadline        `json:"deadlines,omitempty" yaml:"deadlines,omitempty"`   //
	Retry      *Retry            `json:"retry,omitempty" yaml:"retry,omitempty"`           //
	Recover    map[string]string `json:"recover,omitempty" yaml:"recover,omitempty"`       // state → state when nobody vouches for the account any more
}

// State is one state of a machine.
type State struct {
	Name      string   `json:"name" yaml:"name"`
	Class     string   `json:"class" yaml:"class"`                             // one of Classes
	Can       []string `json:"can,omitempty" yaml:"can,omitempty"`             // of Capabilities
	Stable    bool     `json:"stable,omitempty" yaml:"stable,omitempty"`       // holds over a restart; the others are determined anew
	Human     bool     `json:"human,omitempty" yaml:"human,omitempty"`         // waits for a person
	Final     bool     `json:"final,omitempty" yaml:"final,omitempty"`         // needs no way out
	Attention string   `json:"attention,omitempty" yaml:"attention,omitempty"` // what a human is asked for while in this state
	IfWanted  bool     `json:"if_wanted,omitempty" yaml:"if_wanted,omitempty"` // ask only while the account's desired is run
	AsksLogin []Ask    `json:"asks_login,omitempty" yaml:"asks_login,omitempty"`
}

// Ask makes a state ask for a login when one of the triggers After led to it.
type Ask struct {
	After   Names `json:"after" yaml:"after"`
	NotUser bool  `json:"not_user,omitempty" yaml:"not_user,omitempty"` // only when it was not given by a user
	Ran     bool  `json:"ran,omitempty" yaml:"ran,omitempty"`           // only for an account that has been ready before
}

// Edge says what the triggers On do in the states From: a move to To (a state
// or a choice), a move to the state that data.state names (one of ToAny), or,
// without both, nothing (legal, the state stays).
type Edge struct {
	On    Names    `json:"on" yaml:"on"`
	From  Names    `json:"from" yaml:"from"`
	To    string   `json:"to,omitempty" yaml:"to,omitempty"`
	ToAny []string `json:"to_any,omitempty" yaml:"to_any,omitempty"`
	When  string   `json:"when,omitempty" yaml:"when,omitempty"` // one of Guards; the edge holds only then
	Else  string   `json:"else,omitempty" yaml:"else,omitempty"` // noop, stale or rejected, when it does not
	Main  bool     `json:"main,omitempty" yaml:"main,omitempty"` // on the main path; drawn solid
}

// Choice is a target that depends on the conditions: Blocked while one of the
// blocking conditions stands, else To.
type Choice struct {
	Name    string `json:"name" yaml:"name"`
	To      string `json:"to" yaml:"to"`
	Blocked string `json:"blocked" yaml:"blocked"`
}

// Deadline says what Muster itself does when an account stays in a state.
type Deadline struct {
	State   string   `json:"state" yaml:"state"`
	After   Duration `json:"after" yaml:"after"`                         // since the state was entered
	Trigger string   `json:"trigger" yaml:"trigger"`                     // mark_stuck, or a trigger of the table that leaves the state
	Reason  string   `json:"reason,omitempty" yaml:"reason,omitempty"`   // reason code of that trigger
	Mode    string   `json:"mode,omitempty" yaml:"mode,omitempty"`       // observe or supervise; empty: both
	Desired string   `json:"desired,omitempty" yaml:"desired,omitempty"` // run; empty: whatever is desired
}

// Retry says how a supervised account is brought back: Trigger is given in
// State, at most Tries times in a row. A trigger that leaves the account where
// it is (a request to its worker) is repeated from the last one, and gives up
// one wait after the last; one that moves it is counted from entering State.
type Retry struct {
	State   string `json:"state" yaml:"state"`
	Trigger string `json:"trigger" yaml:"trigger"`
	Tries   int    `json:"tries" yaml:"tries"`
}
