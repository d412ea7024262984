package codec_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// sameBrief holds what Brief says of a record to the event that Decode reads.
func sameBrief(t interface{ Fatalf(string, ...any) }, record []byte, account domain.AccountID) bool {
	var b domain.Brief
	if !codec.Brief(record, account, &b) {
		return false
	}
	e, err := codec.Decode(record)
	if err != nil {
		t.Fatalf("Brief reads %x, and Decode says %v", record, err)
	}
	want := domain.Brief{Version: e.Version, ID: e.ID, Kind: e.Kind, Key: e.Key, Trigger: e.Trigger, Outcome: e.Outcome,
		From: e.From, To: e.To, At: e.At, Recorded: e.Recorded, Effects: e.Effects}
	want.Within, want.HasWithin = e.Data["reply_within"].(int64)
	want.Due, _ = e.Data["due"].(string)
	want.Message, _ = e.Data["message"].(string)
	want.Handler, _ = e.Data["handler"].(string)
	if b != want || e.Account != account {
		t.Fatalf("Brief gives\n%+v, the event of %q is\n%+v", b, e.Account, want)
	}
	if len(e.Set)+len(e.Ended) > 0 || e.Effects&^domain.BriefEffects != 0 || e.Kind != domain.KindMessage && e.Kind != domain.KindConversation {
		t.Fatalf("a Brief does not tell all of %+v", e)
	}
	return true
}

// talking makes events that a Brief mostly can tell.
func talking(t *rapid.T) domain.Event {
	text := rapid.StringN(0, 12, 300)
	e := anyEvent(t)
	e.Kind = domain.Kind(rapid.IntRange(2, 3).Draw(t, "kind"))
	e.Machine, e.Initial, e.Mode, e.Labels, e.Set, e.Ended = "", "", "", nil, nil, nil
	e.Effects &= domain.BriefEffects
	e.At, e.Recorded = rapid.Int64Min(0).Draw(t, "at"), rapid.Int64Min(1).Draw(t, "recorded")
	e.Epoch, e.Seq = rapid.Int64Min(0).Draw(t, "epoch"), rapid.Int64Min(0).Draw(t, "seq")
	e.Prev[0] |= 1
	e.Data = domain.Data{}
	for _, name := range []string{"message", "handler", "side", "due", "reply_within", "x"} {
		switch rapid.IntRange(0, 3).Draw(t, name) {
		case 0:
			e.Data[name] = text.Draw(t, "text")
		case 1:
			e.Data[name] = rapid.Int64Range(-1, 1<<40).Draw(t, "number")
		}
	}
	return e
}

func TestBriefIsTheEvent(t *testing.T) {
	read, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		e := talking(t)
		record, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		all++
		if sameBrief(t, record, e.Account) {
			read++
		}
		if codec.Brief(record, e.Account+"x", new(domain.Brief)) {
			t.Fatal("it reads the record of another account")
		}
	})
	if read*4 < all {
		t.Errorf("%d of %d were read, want a quarter", read, all)
	}
}

// TestBriefOfDamaged changes every byte of records in many ways, and cuts them.
func TestBriefOfDamaged(t *testing.T) {
	read := 0
	for name, e := range map[string]domain.Event{
		"conversation": conversationSample(),
		"message": {Version: 300, ID: "id-1", Account: "acct-1", Kind: domain.KindMessage, Key: "m-1", Trigger: "message_timed_out", Outcome: domain.Applied,
			From: "SENT", To: "TIMED_OUT", At: 1767261600000000000, Recorded: 1767261600000000001, Source: "muster", Epoch: 1767261000000, Seq: 3, By: domain.ByUs,
			Data: domain.Data{"due": "2026-01-01T10:05:00Z", "reply_within": int64(3600)}, Effects: domain.EffectWatch, Writer: 7, Prev: hash(1)},
	} {
		record, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		if !sameBrief(t, record, e.Account) {
			t.Errorf("the record of a %s is not read", name)
		}
		for i := range record {
			sameBrief(t, record[:i:i], e.Account)
			other := append([]byte{}, record...)
			for x := range 256 {
				other[i] = byte(x)
				if sameBrief(t, other, e.Account) {
					read++
				}
			}
		}
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}

// TestBriefLeavesTheRest lists what is left to the other readers.
func TestBriefLeavesTheRest(t *testing.T) {
	base := func() domain.Event {
		return domain.Event{Version: 2, Account: "a", Kind: domain.KindMessage, Key: "m", Trigger: "message_sent", Outcome: domain.Applied, To: "SENT", At: 1, Recorded: 1 << 40, Prev: hash(1)}
	}
	for name, change := range map[string]func(*domain.Event){
		"":                func(*domain.Event) {},
		"a session":       func(e *domain.Event) { e.Kind = domain.KindSession },
		"a condition set": func(e *domain.Event) { e.Set = []domain.Condition{{Name: "send_stalled"}} },
		"one that ended":  func(e *domain.Event) { e.Ended = []domain.ConditionRef{{Name: "send_stalled"}} },
		"other effects":   func(e *domain.Event) { e.Effects = domain.EffectRevive },
		"nested data":     func(e *domain.Event) { e.Data = domain.Data{"x": []any{"y"}} },
		"the first":       func(e *domain.Event) { e.Prev = [16]byte{} },
	} {
		e := base()
		change(&e)
		record, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sameBrief(t, record, "a"), name == ""; got != want {
			t.Errorf("%s: read is %v, want %v", fmt.Sprintf("%q", name), got, want)
		}
	}
}
