package domain

// Brief is what a [Folding] needs to know of an event about a message or a
// conversation. Most of a history are such events, so that a reader that fills
// a Brief, and not an [Event], passes over it several times as fast.
type Brief struct {
	Version  uint64 // as in Event, and so the next ones
	ID       string
	Kind     Kind // KindMessage or KindConversation; a Folding takes all others for events that concern neither
	Key      string
	Trigger  string
	Outcome  Outcome
	From, To string
	At       int64 // unix ns
	Recorded int64 // unix ns
	Effects  Effects

	// From the data. A value of another type counts as none.
	Within    int64 // reply_within, in seconds
	HasWithin bool
	Due       string // RFC 3339
	Message   string
	Handler   string

	dueAt int64 // Due, when it is known already
}

// BriefEffects are the effects that concern messages and conversations only. An
// event with another one, or that sets or ends conditions, is not told by a Brief.
const BriefEffects = EffectLate | EffectWatch | EffectStalled | EffectClosesTurns | EffectClaim | EffectOpensTurn

// brief tells an event's part in messages and conversations.
func (e *Event) brief() Brief {
	b := Brief{
		Version: e.Version, ID: e.ID, Kind: e.Kind, Key: e.Key, Trigger: e.Trigger, Outcome: e.Outcome,
		From: e.From, To: e.To, At: e.At, Recorded: e.Recorded, Effects: e.Effects,
	}
	if len(e.Data) > 0 {
		b.Within, b.HasWithin = e.Data.count("reply_within")
		b.dueAt, b.Message, b.Handler = e.Data.time("due"), e.Data.text("message"), e.Data.text("handler")
	}
	return b
}

// waitsFor is how long a reply is waited for, when the event makes a message.
func (b *Brief) waitsFor() int64 { return waitsWithin(b.Within, b.HasWithin) }

// due is the time for which a timeout was due, unix ns; 0: it does not say.
func (b *Brief) due() int64 {
	if b.Due == "" {
		return b.dueAt
	}
	at, err := instantText("due", b.Due)
	if err != nil {
		return 0
	}
	return at
}
