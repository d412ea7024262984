package api

import (
	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// The names of the everyday questions.
const (
	CanQuery           = "can"                // CanRequest → Can
	RouteQuery         = "route"              // RouteRequest → Route
	MessageQuery       = "messages.get"       // MessageRequest → Message
	MessagesQuery      = "messages.list"      // MessagesRequest → Messages
	ConversationQuery  = "conversations.get"  // ConversationRequest → Conversation
	ConversationsQuery = "conversations.list" // ConversationsRequest → Conversations
	AttentionQuery     = "attention.list"     // AttentionRequest → Attention
	TimelineQuery      = "timeline"           // TimelineRequest → Timeline
	WhyQuery           = "why"                // WhyRequest → Why
)

// CanRequest asks whether an account may do something now. The answer is never
// behind a verdict that was given.
type CanRequest struct {
	Account string `json:"account"`
	Do      string `json:"do"`              // read, send or bulk
	Scope   string `json:"scope,omitempty"` // e.g. new_chats; empty = none named
}

// Can is the answer to a CanRequest.
type Can struct {
	Account string                 `json:"account"`
	Do      string                 `json:"do"`
	Scope   string                 `json:"scope"`
	Can     bool                   `json:"can"`
	Reason  string                 `json:"reason"` // why not: the state, or the conditions that block; "" when it can
	Until   string                 `json:"until"`  // RFC 3339: when nothing of that stands in the way any more; "" = no end is known
	State   string                 `json:"state"`
	Since   string                 `json:"since"`
	Blocks  []domain.ConditionView `json:"blocks"` // the conditions that block
	AsOf    AsOf                   `json:"as_of"`  // the account's last event
}

// RouteRequest asks for accounts that may be used for a send.
type RouteRequest struct {
	Do      string            `json:"do"`               // read, send or bulk
	Scope   string            `json:"scope,omitempty"`  // empty = none named
	Labels  map[string]string `json:"labels,omitempty"` // all of them, with these values
	Limit   int               `json:"limit,omitempty"`  // 0 = DefaultLimit; above MaxLimit is invalid
	WaitFor AsOf              `json:"wait_for,omitempty"`
}

// Route is the accounts that may, the one that was used longest ago first.
type Route struct {
	Accounts []Candidate `json:"accounts"`
	Whole    bool        `json:"whole"` // false: others may come before some of these; ask for fewer labels at once
	AsOf     AsOf        `json:"as_of"`
}

// Candidate is an account that may be used.
type Candidate struct {
	Account string            `json:"account"`
	Machine string            `json:"machine"`
	State   string            `json:"state"`
	Used    string            `json:"used"`  // RFC 3339: its last message_pending or message_sent; "" = it has had none
	Since   string            `json:"since"` // RFC 3339: when it entered its state; counts as its last use when it has had none
	Labels  map[string]string `json:"labels"`
}

// MessageRequest asks for one message of an account.
type MessageRequest struct {
	Account string `json:"account"`
	ID      string `json:"id"`
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// MessagesRequest asks for a page of messages, in the order of account and id.
type MessagesRequest struct {
	Account string `json:"account,omitempty"` // empty = of all accounts
	State   string `json:"state,omitempty"`   // exact, e.g. SENT
	Overdue bool   `json:"overdue,omitempty"` // no reply came in time: TIMED_OUT
	After   string `json:"after,omitempty"`   // Next of the page before
	Limit   int    `json:"limit,omitempty"`   // 0 = DefaultLimit; above MaxLimit is invalid
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// Messages is one page of messages.
type Messages struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next,omitempty"` // After of the next page; absent on the last one
	AsOf     AsOf      `json:"as_of"`
}

// Message is one message. Open ones are known, and closed ones for 24 hours.
type Message struct {
	Account string            `json:"account"`
	ID      string            `json:"id"`
	State   string            `json:"state"`
	Late    bool              `json:"late"`   // the reply came after its time was up
	First   string            `json:"first"`  // when it was first told of
	Times   map[string]string `json:"times"`  // pending, sent, delivered, read, replied, failed: those that are known
	Due     string            `json:"due"`    // by when a reply is, or was, waited for; "" = it is not
	Closed  string            `json:"closed"` // when it was replied to, timed out or failed; "" = it is open
	AsOf    AsOf              `json:"as_of,omitempty"`
}

// ConversationRequest asks for an account's conversation with one contact.
type ConversationRequest struct {
	Account string `json:"account"`
	Contact string `json:"contact"`
	WaitFor AsOf   `json:"wait_for,omitempty"`
}

// ConversationsRequest asks for a page of conversations, in the order of
// account and contact.
type ConversationsRequest struct {
	Account    string `json:"account,omitempty"`    // empty = of all accounts
	Mode       string `json:"mode,omitempty"`       // bot, human or ended: who is in charge
	Unanswered bool   `json:"unanswered,omitempty"` // a customer waits for an answer
	After      string `json:"after,omitempty"`      // Next of the page before
	Limit      int    `json:"limit,omitempty"`      // 0 = DefaultLimit; above MaxLimit is invalid
	WaitFor    AsOf   `json:"wait_for,omitempty"`
}

// Conversations is one page of conversations.
type Conversations struct {
	Conversations []Conversation `json:"conversations"`
	Next          string         `json:"next,omitempty"` // After of the next page; absent on the last one
	AsOf          AsOf           `json:"as_of"`
}

// Conversation is one account's conversation with one contact.
type Conversation struct {
	Account         string  `json:"account"`
	Contact         string  `json:"contact"`
	State           string  `json:"state"` // BOT, HUMAN or ENDED
	OpenTurns       []Turn  `json:"open_turns"`
	WaitingSince    string  `json:"waiting_since"`    // the first of the open turns; "" = nobody waits
	NobodyAnswering bool    `json:"nobody_answering"` // a turn was open for 15 minutes, and some still are
	Claims          []Claim `json:"claims,omitempty"` // the last 256, oldest first; only when one conversation is asked for
	AsOf            AsOf    `json:"as_of,omitempty"`
}

// Turn is a customer's message that nobody has answered.
type Turn struct {
	Message string `json:"message"`
	At      string `json:"at"`
}

// Claim says who answers, or has answered, a message.
type Claim struct {
	Message string `json:"message"`
	Handler string `json:"handler"`
}

// AttentionRequest asks who needs a human. Filters that are empty do not filter.
type AttentionRequest struct {
	Kind     string            `json:"kind,omitempty"`     // exact, e.g. scan_qr
	Source   string            `json:"source,omitempty"`   // exact
	Labels   map[string]string `json:"labels,omitempty"`   // of the account, all of them
	Accounts bool              `json:"accounts,omitempty"` // one row for each account instead of incidents
	After    string            `json:"after,omitempty"`    // Next of the page before
	Limit    int               `json:"limit,omitempty"`    // 0 = DefaultLimit; above MaxLimit is invalid
	WaitFor  AsOf              `json:"wait_for,omitempty"`
}

// Attention is a page of incidents, the one that began last first, or of
// accounts, by id.
type Attention struct {
	Incidents []Incident       `json:"incidents,omitempty"`
	Accounts  []NeedsAttention `json:"accounts,omitempty"`
	Total     *AttentionTotal  `json:"total,omitempty"` // with incidents: over all pages
	Next      string           `json:"next,omitempty"`  // After of the next page; absent on the last one
	AsOf      AsOf             `json:"as_of"`
}

// AttentionTotal counts what matches on all pages.
type AttentionTotal struct {
	Incidents int `json:"incidents"`
	Accounts  int `json:"accounts"` // once for each kind
}

// Incident is what accounts of one source need for one reason since one time.
type Incident struct {
	Kind     string   `json:"kind"`
	Accounts int      `json:"accounts"`
	Source   string   `json:"source"`
	Reason   string   `json:"reason"` // a code, a state, or the trigger that began it
	Since    string   `json:"since"`  // when the first of them began
	Last     string   `json:"last"`   // when the last of them began
	About    string   `json:"about"`
	Do       string   `json:"do"`     // what a human does about it
	Sample   []string `json:"sample"` // some of the accounts
}

// NeedsAttention is one thing that one account needs a human for.
type NeedsAttention struct {
	Account string            `json:"account"`
	Kind    string            `json:"kind"`
	State   string            `json:"state"`
	Since   string            `json:"since"`
	Source  string            `json:"source"`
	Reason  string            `json:"reason"`
	About   string            `json:"about"`
	Do      string            `json:"do"`
	Labels  map[string]string `json:"labels"`
}

// TimelineRequest asks for a page of an account's events, the last one first.
type TimelineRequest struct {
	Account string `json:"account"`
	Before  string `json:"before,omitempty"` // Next of the page before
	Limit   int    `json:"limit,omitempty"`  // 0 = DefaultLimit; above MaxLimit is invalid
}

// Timeline is one page of events.
type Timeline struct {
	Account string  `json:"account"`
	Events  []Event `json:"events"`
	Next    string  `json:"next,omitempty"` // Before of the next page; absent on the last one
	AsOf    AsOf    `json:"as_of"`
}

// Event is one event of an account's history. What was not said is left out.
type Event = bus.Event

// WhyRequest asks where an account is and what it waits for.
type WhyRequest struct {
	Account string `json:"account"`
}

// Why is one sentence, and the evidence for it.
type Why struct {
	Account  string `json:"account"`
	Sentence string `json:"sentence"`
	WaitsFor string `json:"waits_for"` // "" = nothing
	WhoActs  string `json:"who_acts"`  // nobody, person, connector, muster or vendor

	Machine    string                 `json:"machine"`
	Mode       string                 `json:"mode"`
	Desired    string                 `json:"desired"`
	State      string                 `json:"state"`
	Class      string                 `json:"class"`
	Since      string                 `json:"since"`
	For        float64                `json:"for_s"`
	Reason     string                 `json:"reason"` // the code or trigger that led into the state; "" = none did
	Conditions []domain.ConditionView `json:"conditions"`
	Can        domain.CanView         `json:"can"`
	Attention  []AttentionAdvice      `json:"attention"`

	Progress *Event      `json:"last_progress"`    // the last event that moved its state; null = not among the last ones
	After    AfterMove   `json:"since_progress"`   // what came after that
	Source   SourceFacts `json:"source"`           // who stands behind its state
	Retries  Retries     `json:"retries"`          // Muster's own tries
	Next     *Deadline   `json:"next_deadline"`    // what Muster does next if nothing happens; null = nothing
	Dwell    Dwell       `json:"compared"`         // with how long others stayed in this state
	Others   Others      `json:"others"`           // who is in the same place
	Damage   string      `json:"damage,omitempty"` // why its history is not whole
	AsOf     AsOf        `json:"as_of"`
}

// AttentionAdvice is what an account needs a human for.
type AttentionAdvice struct {
	Kind  string `json:"kind"`
	About string `json:"about"`
	Do    string `json:"do"`
}

// AfterMove counts the triggers of an account after the last one that moved its
// state, those about messages and conversations aside.
type AfterMove struct {
	Looked   int     `json:"looked_at"` // events that were looked at, from the last one back
	Whole    bool    `json:"whole"`     // they go back to the last move, or to the beginning
	Noop     int     `json:"noop"`
	Rejected int     `json:"rejected"`
	Stale    int     `json:"stale"`
	Refused  []Event `json:"refused"` // the last of the rejected and stale ones, the last first
}

// SourceFacts are about the account's source.
type SourceFacts struct {
	Name     string   `json:"name"`      // "" = nobody but users and Muster has spoken
	LastWord string   `json:"last_word"` // its last session trigger that was applied or noop
	Age      *float64 `json:"age_s"`     // how long ago that was; null = not known
	Epoch    int64    `json:"epoch"`
	Worker   *Worker  `json:"worker"` // what its beats say; null = it is not known as a worker
}

// Retries are Muster's own tries to bring an account back.
type Retries struct {
	Done int    `json:"done"`
	Most int    `json:"most"` // 0 = Muster never tries: the mode is observe, or the machine has no rule
	Last string `json:"last"`
}

// Deadline is the next thing that Muster itself has to say about an account.
type Deadline struct {
	Trigger string  `json:"trigger"`
	At      string  `json:"at"`
	In      float64 `json:"in_s"`
	About   string  `json:"about,omitempty"` // the condition or key it is about
}

// Dwell compares an account's time in its state with stays of others that have
// ended. null: none has.
type Dwell struct {
	Stays  int      `json:"stays"`
	Median *float64 `json:"median_s"`
	P95    *float64 `json:"p95_s"`
	Longer *float64 `json:"longer_than"` // share of them that were shorter, 0 to 1
}

// Others counts other accounts of the same machine.
type Others struct {
	InState    int `json:"in_state"`
	SameReason int `json:"same_reason"` // of these, came for the same reason
}
