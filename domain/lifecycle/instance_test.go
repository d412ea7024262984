package lifecycle_test

import (
	"testing"

	"github.com/musterhq/muster/domain"
)

func TestInstance1IsExactlyTheTable(t *testing.T) {
	checkStates(t, get(t, "instance@1"), `
		UNKNOWN idle  ---
		ONLINE  ready rsb
		OFFLINE down  ---`)
	// state, the one who speaks (s1 is believed once anything was said), trigger: outcome, state afterwards, reason
	const table = `
		UNKNOWN s1 online  applied  ONLINE  -
		UNKNOWN s1 offline applied  OFFLINE -
		ONLINE  s1 online  noop     ONLINE  -
		ONLINE  s1 offline applied  OFFLINE -
		OFFLINE s1 online  applied  ONLINE  -
		OFFLINE s1 offline noop     OFFLINE -
		UNKNOWN s2 online  applied  ONLINE  -
		UNKNOWN s2 offline applied  OFFLINE -
		ONLINE  s2 online  rejected ONLINE  not_the_authority
		ONLINE  s2 offline rejected ONLINE  not_the_authority
		OFFLINE s2 online  rejected OFFLINE not_the_authority
		OFFLINE s2 offline rejected OFFLINE not_the_authority`
	for _, f := range rows(table) {
		a := told(t, say(0, "set_labels", of("instance@1")))
		switch f[0] {
		case "ONLINE":
			a, _ = tell(t, a, say(1, "online"))
		case "OFFLINE":
			a, _ = tell(t, a, say(1, "offline"))
		}
		if a.State != f[0] {
			t.Fatalf("the way leads to %s, want %s", a.State, f[0])
		}
		a, v := tell(t, a, say(2, f[2], from(f[1])))
		reason := v.Reason
		if reason == "" {
			reason = "-"
		}
		if v.Outcome.String() != f[3] || v.To != f[4] || a.State != f[4] || reason != f[5] {
			t.Errorf("%v: got %s to %s (%s)", f, v.Outcome, a.State, v.Reason)
		}
	}
}

func TestInstance1Authority(t *testing.T) {
	to := with(domain.Data{"source": "s2"})
	for _, c := range []struct {
		who     domain.Initiator
		outcome domain.Outcome
		then    domain.Outcome // what a word of s2 is afterwards
	}{
		{domain.ByUser, domain.Applied, domain.Applied},
		{domain.ByUs, domain.Rejected, domain.Stale},
		{domain.ByRemote, domain.Rejected, domain.Stale},
		{domain.ByUnknown, domain.Rejected, domain.Stale},
	} {
		a := told(t, say(0, "online", of("instance@1"), epoch(9)))
		a, v := tell(t, a, say(1, "authority", by(c.who), to))
		if v.Outcome != c.outcome || a.State != "ONLINE" {
			t.Errorf("by %s: want %s, got %s", c.who, c.outcome, v.Outcome)
		}
		// Once it is believed, its epochs have nothing to do with those of the source before it.
		if _, v = tell(t, a, say(2, "offline", from("s2"), epoch(1))); v.Outcome != c.then {
			t.Errorf("by %s: s2 is then %s (%s), want %s", c.who, v.Outcome, v.Reason, c.then)
		}
	}
	a := told(t, say(0, "online", of("instance@1"), from("s2")), say(1, "authority", by(domain.ByUser), to))
	if _, v := tell(t, a, say(2, "authority", by(domain.ByUser), to)); v.Outcome != domain.Noop {
		t.Errorf("the same authority again is %s, want a noop", v.Outcome)
	}
	for _, name := range []string{"whatsapp@1", "whatsapp@2", "wecom@1"} {
		if _, v := tell(t, nil, say(0, "authority", of(name), by(domain.ByUser), to)); v.Outcome != domain.Rejected {
			t.Errorf("%s has no authority: want rejected, got %s", name, v.Outcome)
		}
	}
}

// No silence and no recovery changes what was said, and who does not say who he is
// is not heard.
func TestInstance1IsNotChangedBySilence(t *testing.T) {
	for _, name := range []string{"online", "offline"} {
		a := told(t, say(0, name, of("instance@1")))
		if d, ok := judge.Due(a); ok {
			t.Errorf("%s: %s is due", a.State, d.Trigger.Name)
		}
		state := a.State
		if a, v := tell(t, a, say(1, "recover", from(domain.SourceMuster))); v.Outcome != domain.Noop || a.State != state || conditions(a) != "" {
			t.Errorf("recover on %s: %s to %s, %s", state, v.Outcome, a.State, conditions(a))
		}
		if d := judge.Decide(a, say(2, name, from("")), noon+2e9); d.Verdict.Outcome != domain.Invalid {
			t.Errorf("%s without a source is %s, want invalid", name, d.Verdict.Outcome)
		}
	}
}
