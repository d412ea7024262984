package machine

import "slices"

// The families of machines.
const (
	FamilySession      = "session"
	FamilyMessage      = "message"
	FamilyConversation = "conversation"
)

// The classes of states, the same for all machines, so that a mixed fleet can
// be counted.
const (
	ClassIdle       = "idle"
	ClassStarting   = "starting"
	ClassHuman      = "human"
	ClassReady      = "ready"
	ClassLimited    = "limited"
	ClassDown       = "down"
	ClassRecovering = "recovering"
	ClassStopped    = "stopped"
)

// Classes lists all classes, in the order of an account's life.
func Classes() []string {
	return []string{ClassIdle, ClassStarting, ClassHuman, ClassReady, ClassLimited, ClassDown, ClassRecovering, ClassStopped}
}

// The capabilities of a state.
const (
	CanRead = "read"
	CanSend = "send"
	CanBulk = "bulk"
)

// Capabilities lists all capabilities.
func Capabilities() []string { return []string{CanRead, CanSend, CanBulk} }

// The guards of edges.
const (
	WhenNewerEpoch = "newer_epoch" // the trigger's epoch is newer than the account's
	WhenBlocked    = "blocked"     // a blocking condition stands after what the trigger did to the conditions
	WhenUnblocked  = "unblocked"   // a blocking condition ended with the trigger, or none stands
	WhenTgtLive    = "tgt_live"    // the account's tgt has not ended at the trigger's time
	WhenLater      = "later"       // the trigger's time is later than that of the state
)

// Guards lists all guards.
func Guards() []string {
	return []string{WhenNewerEpoch, WhenBlocked, WhenUnblocked, WhenTgtLive, WhenLater}
}

// What an edge gives when its guard does not hold.
const (
	ElseNoop     = "noop"
	ElseStale    = "stale"
	ElseRejected = "rejected"
)

// The conditions: named facts that live beside the state.
const (
	RateLimited        = "rate_limited"
	Restricted         = "restricted"
	Unresponsive       = "unresponsive"
	Replaced           = "replaced"
	Refused            = "refused"
	Banned             = "banned"
	Flapping           = "flapping"
	Stuck              = "stuck"
	GaveUp             = "gave_up"
	Unvouched          = "unvouched"
	Unverified         = "unverified"
	UnexpectedActivity = "unexpected_activity"
	IdentityUnverified = "identity_unverified"
	UnexpectedStop     = "unexpected_stop"
	SendStalled        = "send_stalled"
	UserAction         = "user_action"
	TicketExpiring     = "ticket_expiring"
	LoginNeeded        = "login_needed"
	FullResync         = "full_resync"
)

// Condition says what a built-in condition means while it stands.
type Condition struct {
	Name      string
	Common    bool // every machine has it
	Blocker   bool // holds an account in the blocked state of a choice
	NoSend    bool // neither send nor bulk, in its scope where it has one
	Attention bool // a human must look
	About     string
}

var conditions = []Condition{
	{Name: Stuck, Common: true, Attention: true, About: "longer in a passing state than it should be"},
	{Name: GaveUp, Common: true, Attention: true, About: "all retries are used up"},
	{Name: Unvouched, Common: true, NoSend: true, Attention: true, About: "its worker does not beat any more"},
	{Name: Unverified, Common: true, Attention: true, About: "its source has not spoken since the restart"},
	{Name: RateLimited, Blocker: true, NoSend: true, About: "the vendor limits sending"},
	{Name: Restricted, NoSend: true, About: "the vendor forbids sending in a scope"},
	{Name: Unresponsive, Blocker: true, NoSend: true, About: "probes stay unanswered"},
	{Name: Replaced, Attention: true, About: "another client took the connection over"},
	{Name: Refused, Attention: true, About: "the server refuses to connect it"},
	{Name: Banned, Attention: true, About: "the vendor banned the account"},
	{Name: Flapping, Attention: true, About: "lost again and again within minutes"},
	{Name: UnexpectedActivity, Attention: true, About: "it came up although it is stopped"},
	{Name: IdentityUnverified, Attention: true, About: "it claims to be up before anyone paired it"},
	{Name: UnexpectedStop, Attention: true, About: "somebody else stopped it"},
	{Name: SendStalled, NoSend: true, Attention: true, About: "messages in a row stay pending"},
	{Name: UserAction, Attention: true, About: "its owner must do something"},
	{Name: TicketExpiring, Attention: true, About: "a ticket is near its end"},
	{Name: LoginNeeded, Attention: true, About: "only a new login brings it back"},
	{Name: FullResync, Attention: true, About: "the local copy must be rebuilt"},
}

// Conditions lists all built-in conditions.
func Conditions() []Condition { return slices.Clone(conditions) }

// ConditionNamed returns the built-in condition of that name.
func ConditionNamed(name string) (Condition, bool) {
	i := conditionIndex(name)
	if i < 0 {
		return Condition{}, false
	}
	return conditions[i], true
}

func conditionIndex(name string) int {
	for i := range conditions {
		if conditions[i].Name == name {
			return i
		}
	}
	return -1
}

// The groups of triggers that belong to no session machine.
const (
	GroupMessage      = "message"      // a fact about a message
	GroupConversation = "conversation" // a fact about a conversation
	GroupAccount      = "account"      // a setting of the account
	GroupMark         = "mark"         // Muster's own; publishers may not give it
	GroupRecover      = "recover"      // determine the state anew
	GroupBeat         = "beat"         // heartbeat
)

var reserved = map[string]string{
	"message_pending": GroupMessage, "message_sent": GroupMessage, "message_delivered": GroupMessage,
	"message_read": GroupMessage, "message_replied": GroupMessage, "message_failed": GroupMessage,
	"message_timed_out": GroupMark, "message_stalled": GroupMark,

	"customer_message": GroupConversation, "take_over": GroupConversation, "human_replied": GroupConversation,
	"hand_back": GroupConversation, "end": GroupConversation, "claim": GroupConversation,
	"nobody_answering": GroupMark,

	"set_mode": GroupAccount, "set_labels": GroupAccount, "authority": GroupAccount, "forget": GroupAccount,

	"mark_stuck": GroupMark, "mark_gave_up": GroupMark, "condition_expired": GroupMark, "settled": GroupMark,
	"ticket_due": GroupMark, "ticket_ended": GroupMark, "vouch_lost": GroupMark, "vouch_restored": GroupMark,

	"recover":   GroupRecover,
	"heartbeat": GroupBeat,
}

// Reserved returns the group of a trigger that belongs to no session machine;
// ok is false for every other name.
func Reserved(trigger string) (group string, ok bool) {
	group, ok = reserved[trigger]
	return group, ok
}

// ReservedNames lists the triggers of Reserved, sorted.
func ReservedNames() []string {
	names := make([]string, 0, len(reserved))
	for n := range reserved {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
