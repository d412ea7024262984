package domain

// FoldVersion grows whenever Evolve gives another state for the same events, or
// Account keeps it in another form. A snapshot of another version is thrown
// away and the account folded again.
const FoldVersion = 2

// Account is the fold of one account's events. Everything the judge needs is
// here, and nothing else: it can be thrown away and folded again.
//
// A snapshot keeps its binary form (MarshalBinary). Evolve is the only writer;
// readers that share an Account with a writer must be given a Clone.
type Account struct {
	ID      AccountID
	Machine string // e.g. "whatsapp@2"
	Mode    string
	Desired string
	State   string
	Since   int64 // unix ns: the `at` of the event that led here
	Version uint64

	Labels     map[string]string
	Conditions []Condition // sorted by name, then scope

	Source string // the account's source: who stands behind its state
	Epoch  int64  // highest epoch among applied and noop session triggers
	Seq    int64  // highest seq judged in that epoch
	Closed int64  // epoch that a logout or stop closed; 0 = none, or an unknown one

	UpSince int64   // unix ns: when it last came up (class ready or limited)
	Sources []Heard // the last 16 sources of session triggers
	Recent  Recent
	Trouble *Trouble
	Extra   *Extra
	Talk    *Talk

	Forgotten bool // a tombstone: not listed, no deadline fires
	Ran       bool // has been ready before
	AsksLogin bool // the way into its state asks for a login
}

// Heard is what is remembered of one source: the time of its last session
// trigger that was applied or noop.
type Heard struct {
	Source string
	At     int64 // unix ns, as the source gave it
}

// maxSources is how many sources are remembered per account.
const maxSources = 16

// Trouble is what is remembered of losses and retries. A nil one is empty.
type Trouble struct {
	Tries      int     // retries by Muster since it was last well: the n of the retry rule
	LastTry    int64   // unix ns
	ReplacedAt int64   // last fact that set the condition replaced, unix ns
	RefusedAt  int64   // … refused
	BannedTill int64   // end of the last ban, kept when it has passed
	Flaps      []int64 // times of the last 5 moves that count for flapping, in order of judging
}

func (t *Trouble) empty() bool {
	return t.Tries == 0 && t.LastTry == 0 && t.ReplacedAt == 0 && t.RefusedAt == 0 && t.BannedTill == 0 && len(t.Flaps) == 0
}

// maxFlaps is how many moves flapping looks at.
const maxFlaps = 5

// Extra is what only some machines keep. A nil one is empty.
type Extra struct {
	Authority string // the only source that is believed
	SidFrom   int64
	SidUntil  int64 // unix ns; 0 = unknown
	TgtFrom   int64
	TgtUntil  int64 // unix ns; 0 = unknown
	Cursor    int64 // next_seq
	HasCursor bool
	LastSync  int64 // unix ns; 0 = none yet
	Beat      int64 // last heartbeat, unix ns; in memory only, no part of the digest
}

// Clone returns a copy that Evolve may change without touching a. It is cheap:
// Evolve never changes what a slice, map or pointer of an account holds, it puts
// a new one in its place.
func (a *Account) Clone() *Account {
	c := *a
	return &c
}

// trouble and extra read the optional parts; an absent one reads as empty.

func (a *Account) trouble() Trouble {
	if a == nil || a.Trouble == nil {
		return Trouble{}
	}
	return *a.Trouble
}

func (a *Account) extra() Extra {
	if a == nil || a.Extra == nil {
		return Extra{}
	}
	return *a.Extra
}

// condition returns the standing condition of that name and scope.
func (a *Account) condition(name, scope string) (Condition, bool) {
	for i := range a.Conditions {
		if c := &a.Conditions[i]; c.Name == name && c.Scope == scope {
			return *c, true
		}
	}
	return Condition{}, false
}

// has says whether a condition of that name stands, in any scope.
func (a *Account) has(name string) bool {
	for i := range a.Conditions {
		if a.Conditions[i].Name == name {
			return true
		}
	}
	return false
}
