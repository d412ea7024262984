package domain_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// anyEvent makes an event of which no judge need ever have thought: a fold must
// take whatever is recorded.
func anyEvent(r *rand.Rand, version uint64, clock *int64) *domain.Event {
	*clock += pick[int64](r, 0, 1, 60, 600, 3600, 30_000) * sec
	e := &domain.Event{
		Version: version, Account: "acct-1", Kind: pick(r, domain.KindMessage, domain.KindMessage, domain.KindMessage, domain.KindConversation, domain.KindSession, domain.KindMark, domain.KindAccount),
		Outcome: pick(r, domain.Applied, domain.Applied, domain.Noop, domain.Stale, domain.Rejected),
		From:    pick(r, "IDLE", "RUNNING", "OWN_STATE"), To: pick(r, "IDLE", "RUNNING", "DISCONNECTED", "OWN_STATE"),
		At: *clock - pick[int64](r, 0, 0, 1, 4000, 90_000, 200_000)*sec, Recorded: *clock,
		Source: pick(r, "s1", "s2", fmt.Sprint("s", r.IntN(30)), domain.SourceMuster), Epoch: int64(r.IntN(4)), Seq: int64(r.IntN(9)),
		Trigger: "start", Effects: domain.Effects(r.Uint64()) & domain.Effects(r.Uint64()) & domain.Effects(r.Uint64()),
	}
	if version == 1 {
		e.Machine, e.Initial, e.Labels = "whatsapp@2", "IDLE", map[string]string{"pool": "eu"}
	}
	if r.IntN(3) > 0 {
		e.ID = fmt.Sprint("id-", r.IntN(500))
	}
	switch e.Kind {
	case domain.KindMessage:
		e.Key = pick(r, "m-", "m-", "a-key-that-is-longer-than-most-keys-of-messages-", "")
		if e.Key != "" {
			e.Key += fmt.Sprint(r.IntN(40))
		}
		e.Trigger = pick(r, "message_pending", "message_sent", "message_delivered", "message_read", "message_replied", "message_failed", "message_timed_out", "message_stalled")
		e.To = pick(r, "PENDING", "SENT", "DELIVERED", "READ", "REPLIED", "TIMED_OUT", "FAILED", "OWN_STATE")
		if r.IntN(4) == 0 {
			e.Data = domain.Data{"reply_within": int64(r.IntN(4000)), "due": "2026-01-05T10:00:00Z"}
		}
	case domain.KindConversation:
		e.Key = fmt.Sprint("c-", r.IntN(5))
		e.Trigger, e.To = pick(r, "customer_message", "claim", "end", "nobody_answering"), pick(r, "BOT", "HUMAN", "ENDED")
		e.Data = domain.Data{"message": fmt.Sprint("q-", r.IntN(20)), "handler": pick(r, "h1", "h2")}
	case domain.KindAccount:
		e.Trigger = pick(r, "set_mode", "set_labels", "authority")
		e.Data = domain.Data{"mode": pick(r, "observe", "supervise"), "labels": map[string]any{"pool": pick(r, "eu", "us")}, "source": "s1"}
	}
	if r.IntN(5) == 0 {
		e.Set = []domain.Condition{{Name: pick(r, "stuck", "banned", "replaced", "refused"), Since: e.At, Until: pick(r, 0, e.At+60*sec)}}
	}
	if r.IntN(5) == 0 {
		e.Ended = []domain.ConditionRef{{Name: pick(r, "stuck", "banned", "replaced", "refused")}}
	}
	return e
}

// TestFoldingIsEvolve folds random histories both ways, and compares after each
// event of some, and at the end of all.
func TestFoldingIsEvolve(t *testing.T) {
	s := *seed
	t.Logf("seed %d (-seed %d plays it again)", s, s)
	end := time.Now().Add(3 * time.Second)
	histories := 0
	for ; histories < 3000 && (histories < 20 || time.Now().Before(end)); histories++ {
		r := rand.New(rand.NewPCG(s, uint64(histories)))
		clock := t0
		var events []*domain.Event
		var a *domain.Account
		var f domain.Folding
		n := 1 + r.IntN(300)
		for version := range uint64(n) {
			e := anyEvent(r, version+1, &clock)
			events = append(events, e)
			a = domain.Evolve(a, e)
			f.Evolve(e)
			if histories%20 == 0 {
				var prefix domain.Folding
				for _, e := range events {
					prefix.Evolve(e)
				}
				sameAccount(t, a, prefix.Account(), "seed %d, history %d, event %d: %+v", s, histories, version+1, e)
			}
		}
		sameAccount(t, a, f.Account(), "seed %d, history %d", s, histories)
	}
	t.Logf("%d histories", histories)
}

func sameAccount(t *testing.T, want, got *domain.Account, format string, args ...any) {
	t.Helper()
	if !bytes.Equal(domain.AppendCanonical(nil, want), domain.AppendCanonical(nil, got)) {
		t.Fatalf("%s:\nevolved %+v\n%s\nfolding %+v\n%s", fmt.Sprintf(format, args...), want, talkOf(want), got, talkOf(got))
	}
}

// talkOf lists an account's messages and conversations.
func talkOf(a *domain.Account) string {
	var b strings.Builder
	a.Messages(func(id string, m *domain.Message) bool { fmt.Fprintf(&b, "%.60q %+v\n", id, *m); return true })
	a.Conversations(func(id string, c *domain.Conversation) bool { fmt.Fprintf(&b, "%.60q %+v\n", id, *c); return true })
	return b.String()
}

// TestFoldingForgetsAsEvolveDoes closes more messages than are kept.
func TestFoldingForgetsAsEvolveDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var a *domain.Account
	var f domain.Folding
	version := uint64(0)
	for i := range 10_300 {
		for _, trigger := range []string{"message_sent", "message_failed"} {
			version++
			e := &domain.Event{Version: version, Account: "a", Kind: domain.KindMessage, Outcome: domain.Applied, Trigger: trigger, To: "SENT",
				Key: fmt.Sprint("m-", i), At: t0 + int64(r.IntN(3_600))*sec, Recorded: t0 + int64(i)*sec}
			if trigger == "message_failed" {
				e.To = "FAILED"
			}
			if version == 1 {
				e.Machine, e.Initial = "whatsapp@2", "IDLE"
			}
			a = domain.Evolve(a, e)
			f.Evolve(e)
		}
	}
	if n, _ := a.Talk.Size(); n != 10_000 {
		t.Fatalf("%d messages are kept, want 10000", n)
	}
	sameAccount(t, a, f.Account(), "after 10300 messages")
}

// TestFoldingOfBriefs folds histories in which what a Brief tells of comes as
// one, from memory that is overwritten at once, as a reader that reads in place
// does; some of the time the notes are folded early.
func TestFoldingOfBriefs(t *testing.T) {
	memory := make([]byte, 0, 1<<14)
	own := func(s string) string {
		n := len(memory)
		memory = append(memory, s...)
		return inPlace(memory[n:])
	}
	briefs := 0
	bench := domain.NewBench()
	for history := range uint64(300) {
		r := rand.New(rand.NewPCG(*seed, history))
		clock := t0
		var a *domain.Account
		var f domain.Folding
		f.Use(bench)
		for version := range uint64(1 + r.IntN(600)) {
			e := anyEvent(r, version+1, &clock)
			if r.IntN(200) == 0 && e.Key != "" { // more than there is room for beside others
				e.Key += strings.Repeat("x", 200*r.IntN(10))
			}
			if r.IntN(2) == 0 {
				e.Set, e.Ended = nil, nil
				e.Effects &= domain.BriefEffects
			}
			a = domain.Evolve(a, e)
			about := e.Kind == domain.KindMessage || e.Kind == domain.KindConversation
			if version == 0 || !about || len(e.Set)+len(e.Ended) > 0 || e.Effects&^domain.BriefEffects != 0 {
				f.Evolve(e)
				continue
			}
			briefs++
			memory = memory[:0]
			b := domain.Brief{Version: e.Version, ID: own(e.ID), Kind: e.Kind, Key: own(e.Key), Trigger: own(e.Trigger), Outcome: e.Outcome,
				From: own(e.From), To: own(e.To), At: e.At, Recorded: e.Recorded, Effects: e.Effects}
			b.Within, b.HasWithin = e.Data["reply_within"].(int64)
			for name, p := range map[string]*string{"due": &b.Due, "message": &b.Message, "handler": &b.Handler} {
				if s, ok := e.Data[name].(string); ok {
					*p = own(s)
				}
			}
			f.EvolveBrief(&b)
			for i := range memory {
				memory[i] = '#'
			}
			if r.IntN(100) == 0 {
				f.Settle()
			}
		}
		sameAccount(t, a, f.Account(), "seed %d, history %d", *seed, history)
	}
	if briefs < 10_000 {
		t.Errorf("%d briefs were folded, want many", briefs)
	}
}

// inPlace is a text whose bytes can still change.
func inPlace(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
