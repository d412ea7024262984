package operator

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestBookKnowsWhatIsInForce(t *testing.T) {
	waha := map[string]string{Source: "waha-1"}
	var b Book
	b.Apply(Action{ID: "1", Action: Mute, Target: waha, Until: noon.Add(time.Hour)})
	b.Apply(Action{ID: "1", Action: Mute, Target: waha, Until: noon.Add(time.Hour)}) // told twice
	b.Apply(Action{ID: "2", Action: Mute, Target: map[string]string{Account: "a"}})
	b.Apply(Action{ID: "3", Action: Ack, Target: map[string]string{Incident: "inc_1"}})
	b.Apply(Action{ID: "4", Action: "token_made", By: "somebody"})

	ids := func(name Name, at time.Time) (ids string) {
		for _, a := range b.InForce(name, at) {
			ids += a.ID
		}
		return ids
	}
	if at, ok := b.NextEnd(); !ok || !at.Equal(noon.Add(time.Hour)) {
		t.Errorf("the next end is %v %v, want an hour past noon", at, ok)
	}
	if got := ids(Mute, noon); got != "12" {
		t.Errorf("mutes at noon: %s, want 12", got)
	}
	if got := ids(Mute, noon.Add(time.Hour)); got != "2" {
		t.Errorf("mutes an hour later: %s, want 2", got)
	}
	b.Apply(Action{ID: "5", Action: Unmute, Target: map[string]string{Account: "a"}})
	if got := ids(Mute, noon) + "," + ids(Ack, noon); got != ",3" {
		t.Errorf("after the unmute: %s, want no mute and ack 3", got)
	}
	b.Apply(Action{ID: "6", Action: Mute, Target: waha})
	b.Apply(Action{ID: "7", Action: Unmute, Target: map[string]string{ID: "6"}})
	if got := ids(Mute, noon); got != "" {
		t.Errorf("a mute that was ended by its id is in force: %s", got)
	}
}

func TestNames(t *testing.T) {
	facts := map[string]string{Account: "a", Source: "s", Kind: "stuck"}
	for _, c := range []struct {
		target map[string]string
		want   bool
	}{
		{map[string]string{Account: "a"}, true},
		{map[string]string{Account: "a", Kind: "stuck"}, true},
		{map[string]string{Account: "a", Kind: "banned"}, false},
		{map[string]string{Incident: "inc_1"}, false},
		{nil, false},
	} {
		if got := (&Action{Target: c.target}).Names(facts); got != c.want {
			t.Errorf("%v names %v: %v, want %v", c.target, facts, got, c.want)
		}
	}
}

func TestWhatBreaksTheRulesIsRefused(t *testing.T) {
	target := map[string]string{Account: "a"}
	for name, a := range map[string]Action{
		"no name":          {By: "x", Target: target},
		"a name with dots": {By: "x", Action: "a.b", Target: target},
		"nobody":           {Action: Mute, Target: target},
		"no target":        {Action: Mute, By: "x"},
		"an empty value":   {Action: Mute, By: "x", Target: map[string]string{Account: ""}},
		"an end in the past": {
			Action: Mute, By: "x", Target: target, At: noon, Until: noon,
		},
	} {
		if _, err := a.complete(noon); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestTheLogOutlivesARestartAndCannotBeShortened(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := natstest.Run(t)
	l, err := Open(ctx, s.Conn(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	first, seq, err := l.Append(ctx, Action{By: "kim", Action: Mute, Target: map[string]string{Source: "waha-1"}, Reason: "maintenance"})
	if err != nil || seq != 1 {
		t.Fatalf("append: sequence %d, %v", seq, err)
	}
	if _, again, err := l.Append(ctx, first); err != nil || again != 1 {
		t.Fatalf("the same action again: sequence %d, %v; want 1, recognised", again, err)
	}
	if err := l.stream.DeleteMsg(ctx, 1); err == nil {
		t.Error("an action could be deleted")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(ctx, s.Conn(t), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.Publish(ctx, prefix+"mute", []byte("{"), jetstream.WithMsgID("broken")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Append(ctx, Action{By: "kim", Action: "token_made"}); err != nil {
		t.Fatal(err)
	}
	var got []Entry
	for e, err := range l.Follow(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); len(got) == 3 {
			break
		}
	}
	if !maps.Equal(got[0].Action.Target, map[string]string{Source: "waha-1"}) || got[0].Action.Reason != "maintenance" || got[0].Action.At.IsZero() {
		t.Errorf("the first action came back as %+v", got[0].Action)
	}
	if got[1].Err == nil || got[2].Action.Action != "token_made" || got[2].Seq != 3 {
		t.Errorf("the others came back as %+v and %+v", got[1], got[2])
	}
	if last, err := l.Last(ctx); err != nil || last != 3 {
		t.Errorf("last is %d, %v; want 3", last, err)
	}
}
