package domain_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
		t.Fatalf("%s:\nevolved %+v\nfolding %+v", fmt.Sprintf(format, args...), want, got)
	}
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

// TestFoldingKeepsNoStringsOfMessages overwrites the memory of an event's
// strings, as a reader that reads in place does.
func TestFoldingKeepsNoStringsOfMessages(t *testing.T) {
	var f domain.Folding
	first := &domain.Event{Version: 1, Account: "a", Kind: domain.KindSession, Outcome: domain.Applied, Trigger: "start", Machine: "whatsapp@2", Initial: "IDLE", To: "CONNECTING"}
	if !f.Keeps(first) {
		t.Error("the first event's strings are kept, and it says that they are not")
	}
	f.Evolve(first)
	memory := []byte("m-1 id-1 OWN")
	e := &domain.Event{Version: 2, Account: "a", Kind: domain.KindMessage, Outcome: domain.Applied, Trigger: "message_sent",
		Key: inPlace(memory[:3]), ID: inPlace(memory[4:8]), To: inPlace(memory[9:])}
	if f.Keeps(e) {
		t.Fatal("a message's strings need not be the event's own")
	}
	f.Evolve(e)
	copy(memory, "############")
	a := f.Account()
	if m, ok := a.Message("m-1"); !ok || m.State != "OWN" {
		t.Errorf("the message is %+v (%v), want it known and in OWN", m, ok)
	}
	if !a.Recent.Has("id-1") {
		t.Error("the id is not remembered")
	}
}

// inPlace is a text whose bytes can still change.
func inPlace(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
