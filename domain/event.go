package domain

// Outcome is the verdict on a trigger.
type Outcome uint8

// The outcomes. The first four are appended to the account's history; the
// other three are answers only.
const (
	Applied   Outcome = iota + 1 // something changed
	Noop                         // legal, nothing moved
	Stale                        // older than what is known
	Rejected                     // the table has no such edge
	Duplicate                    // the id was seen; the earlier result is returned
	Conflict                     // the expected version is not the account's
	Invalid                      // not a trigger at all; the reason says what is right
)

var outcomeNames = [...]string{"", "applied", "noop", "stale", "rejected", "duplicate", "conflict", "invalid"}

// String returns the outcome's name as it stands in records and answers.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return ""
}

// ParseOutcome is the inverse of String; ok is false for any other text.
func ParseOutcome(s string) (o Outcome, ok bool) {
	for i, n := range outcomeNames {
		if i > 0 && n == s {
			return Outcome(i), true
		}
	}
	return 0, false
}

// Appended says whether a verdict with this outcome is an event of the history.
func (o Outcome) Appended() bool { return o >= Applied && o <= Rejected }

// Kind says what a trigger is about, and so which rules judged it.
type Kind uint8

// The kinds.
const (
	KindSession      Kind = iota + 1 // a trigger of the account's machine
	KindMessage                      // of a message; Key is the message id
	KindConversation                 // of a conversation; Key is the contact
	KindAccount                      // set_mode, set_labels, authority, forget
	KindMark                         // Muster's own marks and recover: stuck, settled, condition_expired …
	KindForeign                      // a trigger of another machine than the account's; always rejected
)

// Effects are the things an event does to the fold beside moving the state and
// the conditions, decided by the judge so that Evolve needs no table.
type Effects uint32

// The effects; the numbers are part of the record format and never change.
const (
	EffectWantRun     Effects = 1 << iota // desired becomes run
	EffectWantStop                        // desired becomes stop
	EffectTry                             // a retry by Muster: n grows by one
	EffectTriesReset                      // n becomes 0
	EffectFlap                            // a move that counts for flapping
	EffectClose                           // the epoch is closed (applied logout or stop)
	EffectOpen                            // a start: the closed epoch is forgotten
	EffectForget                          // the account leaves the views
	EffectRevive                          // a forgotten account is back
	EffectSourceKept                      // the source does not become the account's source
	EffectCursor                          // data.next_seq becomes the cursor
	EffectLogout                          // tickets are forgotten
	EffectLate                            // a message's reply came after its timeout
	EffectUp                              // the account came up: from another class into ready or limited
	EffectRan                             // a state of class ready was reached for the first time
	EffectAsksLogin                       // the way into the new state asks for a login
	EffectAuthority                       // the source becomes the only one that is believed
	EffectSync                            // a sync ended: its time is remembered
	EffectTickets                         // data.sid_until and data.tgt_until are taken over
	EffectClosesTurns                     // all open turns of the conversation close, claimed by a human
	EffectClaim                           // data.message is claimed by data.handler, and its turn closes
	EffectOpensTurn                       // data.message opens a turn
	EffectStalled                         // one more message in a row stays pending
	EffectWatch                           // the message is watched, should it stay pending
)

// Condition is a named fact that lives beside the state.
type Condition struct {
	Name   string `msgpack:"n"`
	Scope  string `msgpack:"s,omitempty"`
	Since  int64  `msgpack:"i"`           // unix ns
	Until  int64  `msgpack:"u,omitempty"` // unix ns; 0 = no end known
	Reason string `msgpack:"r,omitempty"` // the code, or what the condition carries (an action)
}

// ConditionRef names a condition that ended.
type ConditionRef struct {
	Name  string
	Scope string
}

// Event is the appended record of one judged trigger: what was said, the
// verdict, from and to. It holds everything that Evolve needs.
type Event struct {
	Version  uint64 // number of the event within its account: 1, 2, 3 … without gaps
	ID       string // the publisher's id; "" = none was given
	Account  AccountID
	Kind     Kind
	Machine  string // on the account's first event, and when it changes
	Initial  string // on the first event: the account's state before it
	Mode     string // on the first event
	Labels   map[string]string
	Key      string // message id or contact, for those kinds only
	Trigger  string
	Outcome  Outcome
	From, To string // state before and after of what the trigger is about
	At       int64  // observed, unix ns (a time more than 5 min ahead is cut to now)
	Recorded int64  // judged, unix ns
	Source   string
	Epoch    int64
	Seq      int64
	By       Initiator // "" = unknown
	Reason   Reason    // as the source gave it
	Verdict  string    // why it was rejected or stale: "no edge", "not_the_authority" …; else ""
	Data     Data
	Set      []Condition    // conditions set or renewed; Since is already right
	Ended    []ConditionRef // conditions ended, before Set is applied
	Effects  Effects

	Correlation string
	Causation   string
	Traceparent string

	// The log's own part, filled by the writer and not by the judge.
	Writer uint64   // revision of the writer's lease
	Prev   [16]byte // first 16 bytes of the SHA-256 of the account's previous record; zero on the first
}

// Verdict is the answer to a trigger. Its JSON form is the shape of `muster try`.
type Verdict struct {
	Account AccountID
	Key     string
	Trigger string
	Outcome Outcome
	From    string
	To      string
	Version uint64
	Source  string
	Reason  string  // for rejected, stale, conflict and invalid: a sentence or a code; else the trigger's reason code
	Earlier Outcome // for duplicate: the earlier outcome
}

// Decision is what Decide returns: the verdict, and the event to append, which
// is nil when nothing is appended (duplicate, conflict, invalid, heartbeat).
type Decision struct {
	Verdict Verdict
	Event   *Event
	Beat    int64 // for a heartbeat: its time, to be given to [Account.Beat] by who holds the account; else 0
}
