package eventlog

import (
	"errors"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	for _, c := range []struct{ account, token string }{
		{"acct-1", "acct-1"},
		{"wxid_ab", "wxid_ab"},
		{"+15550100001", "=2B15550100001"},
		{"15550100001@s.whatsapp.net", "15550100001=40s=2Ewhatsapp=2Enet"},
		{"a b", "a=20b"},
		{"*", "=2A"},
		{">", "=3E"},
		{"=", "=3D"},
		{"é", "=C3=A9"},
		{"😀", "=F0=9F=98=80"},
		{"\xff", "=FF"},
	} {
		if got := Token(c.account); got != c.token {
			t.Errorf("Token(%q) = %q, want %q", c.account, got, c.token)
		}
		if got, err := ParseToken(c.token); err != nil || got != c.account {
			t.Errorf("ParseToken(%q) = %q, %v, want %q", c.token, got, err, c.account)
		}
	}
}

func TestParseTokenRefusesOtherForms(t *testing.T) {
	for _, token := range []string{"", "=", "=2", "a=2", "=2b", "=2e", "=41", "=5F", "=2D", "=GG", "a.b", "a b", "*", ">", "é", "=2B=", "+1"} {
		if got, err := ParseToken(token); !errors.Is(err, ErrToken) {
			t.Errorf("ParseToken(%q) = %q, %v, want ErrToken", token, got, err)
		}
	}
}

func TestSubject(t *testing.T) {
	if got := Subject(3, "a.b"); got != "muster.ev.03.a=2Eb" {
		t.Errorf("Subject = %q", got)
	}
	if got := StreamName(12); got != "MUSTER_EV_12" {
		t.Errorf("StreamName = %q", got)
	}
	p, account, err := ParseSubject("muster.ev.07.a=2Eb")
	if p != 7 || account != "a.b" || err != nil {
		t.Errorf("ParseSubject = %d, %q, %v", p, account, err)
	}
	for _, s := range []string{"", "muster.ev.", "muster.ev.7.a", "muster.ev.xx.a", "muster.ev.07.", "muster.ev.07.a.b", "muster.in.07.a", "muster.ev.07a"} {
		if _, _, err := ParseSubject(s); !errors.Is(err, ErrToken) {
			t.Errorf("ParseSubject(%q): %v, want ErrToken", s, err)
		}
	}
}

func TestPartition(t *testing.T) {
	// FNV-1a-32: offset 2166136261, prime 16777619; values from the published
	// test vectors ("" 811c9dc5, "a" e40c292c, "foobar" bf9cf968).
	for _, c := range []struct {
		account string
		n, want int
	}{{"", 7, 0x811c9dc5 % 7}, {"a", 4, 0xe40c292c % 4}, {"foobar", 16, 0xbf9cf968 % 16}, {"foobar", 1, 0}} {
		if got := Partition(c.account, c.n); got != c.want {
			t.Errorf("Partition(%q, %d) = %d, want %d", c.account, c.n, got, c.want)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"acct-1", "+1555", "a.b", "=2B", "=41", "😀", "\x00", "a=2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := Token(s)
		if strings.ContainsAny(token, ".*> \t\r\n+@/") {
			t.Fatalf("Token(%q) = %q is no plain token", s, token)
		}
		if s != "" {
			if back, err := ParseToken(token); err != nil || back != s {
				t.Fatalf("ParseToken(Token(%q)) = %q, %v", s, back, err)
			}
		}
		if account, err := ParseToken(s); err == nil && Token(account) != s {
			t.Fatalf("ParseToken(%q) = %q accepts a second form of %q", s, account, Token(account))
		}
	})
}
