package bus

import (
	"errors"
	"testing"

	"github.com/musterhq/muster/domain"
)

// TestSpeakers writes speakers into subjects and reads them back.
func TestSpeakers(t *testing.T) {
	for _, tt := range []struct {
		s              Speaker
		command, inbox string
	}{
		{Speaker{Source: "waha-1"}, "muster.src.waha-1.a=2Eb", "muster.in.waha-1.a=2Eb"},
		{Speaker{Source: "@waha"}, "muster.src.=40waha.a=2Eb", "muster.in.=40waha.a=2Eb"}, // no token's name
		{Speaker{Token: "abc"}, "muster.src.@abc.a=2Eb", "muster.in.@abc.a=2Eb"},
		{Speaker{Token: "a.b>"}, "muster.src.@a=2Eb=3E.a=2Eb", "muster.in.@a=2Eb=3E.a=2Eb"},
	} {
		if got := tt.s.Command("a.b"); got != tt.command {
			t.Errorf("%+v commands on %s, want %s", tt.s, got, tt.command)
		}
		if got := tt.s.Inbox("a.b"); got != tt.inbox {
			t.Errorf("%+v publishes on %s, want %s", tt.s, got, tt.inbox)
		}
		for _, subject := range []string{tt.command, tt.inbox} {
			if got, err := SpeakerOf(subject); got != tt.s || err != nil {
				t.Errorf("SpeakerOf(%q) = %+v, %v; want %+v", subject, got, err, tt.s)
			}
			if account, err := AccountOf(subject); account != "a.b" || err != nil {
				t.Errorf("AccountOf(%q) = %q, %v", subject, account, err)
			}
		}
	}
	for _, subject := range []string{"muster.cmd.a", "muster.in.a", "muster.own.00.a"} {
		if got, err := SpeakerOf(subject); got != (Speaker{}) || err != nil {
			t.Errorf("SpeakerOf(%q) = %+v, %v; want nobody", subject, got, err)
		}
	}
	for _, subject := range []string{"muster.src.=zz.a", "muster.src.@=zz.a", "muster.src.@.a", "muster.in.a.b.c"} {
		if got, err := SpeakerOf(subject); err == nil {
			t.Errorf("SpeakerOf(%q) = %+v, want an error", subject, got)
		}
	}
	if subject := NamedQuery("a.b", "accounts.get"); subject != "muster.as.a=2Eb.accounts.get" {
		t.Errorf("a named query goes to %s", subject)
	}
	if name, query, err := AskerOf("muster.as.a=2Eb.accounts.get"); name != "a.b" || query != "accounts.get" || err != nil {
		t.Errorf("AskerOf: %q, %q, %v", name, query, err)
	}
	if _, _, err := AskerOf("muster.as.=zz.accounts.get"); err == nil {
		t.Error("AskerOf takes a bad name")
	}
}

// TestAdmitByItself: without anybody to ask, a source speaks for itself and a token
// is nobody.
func TestAdmitByItself(t *testing.T) {
	start := domain.Trigger{Name: "start", Source: "waha-1"}
	for subject, may := range map[string]bool{
		"muster.cmd.a": true, "muster.in.a": true, "muster.src.waha-1.a": true, "muster.in.waha-1.a": true,
		"muster.src.waha-2.a": false, "muster.in.waha-2.a": false, "muster.src.@waha-1.a": false,
	} {
		kept, err := Admit(nil).Ask(subject, &start)
		if kept != nil || (err == nil) != may || err != nil && !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: %v, want let through %v", subject, err, may)
		}
	}
	if _, err := Admit(nil).Ask("muster.in.a.b.c", &start); !errors.Is(err, ErrInvalid) {
		t.Errorf("a subject with too many tokens: %v, want ErrInvalid", err)
	}
}
