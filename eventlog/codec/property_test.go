package codec_test

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

func anyValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		last := 6
		if depth == 0 {
			last = 4
		}
		switch rapid.IntRange(0, last).Draw(t, "type") {
		case 0:
			return rapid.String().Draw(t, "string")
		case 1:
			return rapid.Int64().Draw(t, "int")
		case 2:
			return rapid.Float64().Draw(t, "float")
		case 3:
			return rapid.Bool().Draw(t, "bool")
		case 4:
			return nil
		case 5:
			return append([]any{}, rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "list")...)
		}
		return map[string]any(anyData(depth-1).Draw(t, "map"))
	})
}

func anyData(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.String(), anyValue(depth), 0, 5)
}

// anyEvent makes any event that can be encoded, in the form that decoding
// gives: what is empty is nil.
func anyEvent(t *rapid.T) domain.Event {
	text := rapid.StringN(0, 40, 300)
	name := rapid.StringN(1, 20, 128)
	e := domain.Event{
		Version: rapid.Uint64Min(1).Draw(t, "version"), ID: text.Draw(t, "id"), Account: domain.AccountID(name.Draw(t, "account")),
		Kind:    domain.Kind(rapid.IntRange(1, 6).Draw(t, "kind")),
		Machine: text.Draw(t, "machine"), Initial: text.Draw(t, "initial"), Mode: text.Draw(t, "mode"), Key: text.Draw(t, "key"), Trigger: name.Draw(t, "trigger"),
		Outcome: domain.Outcome(rapid.IntRange(1, 4).Draw(t, "outcome")), From: text.Draw(t, "from"), To: text.Draw(t, "to"),
		At: rapid.Int64().Draw(t, "at"), Recorded: rapid.Int64().Draw(t, "recorded"), Source: text.Draw(t, "source"),
		Epoch: rapid.Int64().Draw(t, "epoch"), Seq: rapid.Int64().Draw(t, "seq"), By: domain.Initiator(text.Draw(t, "by")),
		Reason: domain.Reason{Code: text.Draw(t, "code"), Text: text.Draw(t, "text")}, Verdict: text.Draw(t, "verdict"),
		Effects:     domain.Effects(rapid.Uint32().Draw(t, "effects")),
		Correlation: text.Draw(t, "correlation"), Causation: text.Draw(t, "causation"), Traceparent: text.Draw(t, "traceparent"),
		Writer: rapid.Uint64().Draw(t, "writer"),
	}
	copy(e.Prev[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "prev"))
	if m := rapid.MapOfN(text, text, 0, 4).Draw(t, "labels"); len(m) > 0 {
		e.Labels = m
	}
	if m := anyData(3).Draw(t, "data"); len(m) > 0 {
		e.Data = m
	}
	for range rapid.IntRange(0, 3).Draw(t, "set") {
		e.Set = append(e.Set, domain.Condition{
			Name: text.Draw(t, "name"), Scope: text.Draw(t, "scope"), Reason: text.Draw(t, "reason"),
			Since: rapid.Int64().Draw(t, "since"), Until: rapid.Int64().Draw(t, "until"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "ended") {
		e.Ended = append(e.Ended, domain.ConditionRef{Name: text.Draw(t, "name"), Scope: text.Draw(t, "scope")})
	}
	return e
}

func TestAnyEventSurvivesItsRecord(t *testing.T) {
	all := readers()
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent(t)
		record, err := codec.Encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.Decode(record)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Decode:\n got %+v\nwant %+v", got, want)
		}
		for _, read := range all {
			var e domain.Event
			if err := read(record, &e); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(e, want) {
				t.Fatalf("Reader:\n got %+v\nwant %+v", e, want)
			}
		}
		again, err := codec.Encode(&got)
		if err != nil || !bytes.Equal(again, record) {
			t.Fatalf("encoded again: %v\n got %x\nwant %x", err, again, record)
		}
	})
}
