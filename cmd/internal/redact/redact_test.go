package redact

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// lines logs with a fresh handler of level debug and returns what came out.
func lines(f func(l *slog.Logger)) string {
	var b bytes.Buffer
	f(slog.New(New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	return b.String()
}

func TestRedact(t *testing.T) {
	const phone, whole = "+15550100001", "mst_abcdefgh23456772_0123456789abcdef0123456789abcdef"
	secrets := []string{"5550100001", "0123456789abcdef"}
	type name string
	for what, f := range map[string]func(*slog.Logger){
		"message":       func(l *slog.Logger) { l.Info("account " + phone + " with " + whole) },
		"text":          func(l *slog.Logger) { l.Warn("x", "account", phone, "token", whole) },
		"named type":    func(l *slog.Logger) { l.Error("x", "account", name(phone)) },
		"error":         func(l *slog.Logger) { l.Error("x", "error", errors.New("send start for \""+phone+"\": "+whole)) },
		"subject":       func(l *slog.Logger) { l.Info("x", "subject", "muster.cmd.=2B15550100001") },
		"address":       func(l *slog.Logger) { l.Info("x", "jid", "15550100001@s.whatsapp.net") },
		"with":          func(l *slog.Logger) { l.With("account", phone).Info("x") },
		"group":         func(l *slog.Logger) { l.WithGroup("g").Info("x", slog.Group("h", "account", phone)) },
		"list":          func(l *slog.Logger) { l.Info("x", "accounts", []string{phone, "acct-2"}) },
		"shorter, plus": func(l *slog.Logger) { l.Info("+5550100001") },
	} {
		got := lines(f)
		for _, s := range secrets {
			if strings.Contains(got, s) {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	got := lines(func(l *slog.Logger) {
		l.Info("replayed", "account", "wxid_ab", "seq", 12345678901, "text", "sequence 123456789", "took", 3*time.Second, "at", at,
			"hash", "0000000000000000000000000000000000000001", "token", "mst_abcdefgh23456772")
		l.Debug("+15550100001 as it is", "account", "+15550100001")
	})
	for _, want := range []string{
		"account=wxid_ab", "seq=12345678901", "sequence 123456789", "took=3s", "2026-01-01T10:00:00", "hash=0000000000000000000000000000000000000001",
		"token=mst_abcdefgh23456772", `msg="+15550100001 as it is"`, "account=+15550100001",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

// TestTheSameNumberHasTheSameName, however it is written; another has another.
func TestTheSameNumberHasTheSameName(t *testing.T) {
	f := strings.Fields(lines(func(l *slog.Logger) { l.Info("+15550100001 15550100001@x =2B15550100001 +15550100002") }))
	var names []string
	for _, w := range f {
		if i := strings.Index(w, "tel-"); i >= 0 {
			names = append(names, w[i:i+12])
		}
	}
	if len(names) != 4 || names[0] != names[1] || names[1] != names[2] || names[2] == names[3] {
		t.Errorf("names %q", names)
	}
}
