package reconcile

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
)

func TestWhatAServerMayAnswer(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	for answer, odd := range map[string]int{
		`[null,7,"x",[],{},{"name":"a"},{"name":"b","status":7},{"name":"","status":"WORKING"}]`: 8,
		list(wahaSession("a", "SLEEPING")):                      1,
		list(wahaSession(strings.Repeat("x", 200), "WORKING")):  1,
		list(wahaSession("a", "FAILED"), wahaSession("a", "x")): 1,
		"[]":   0,
		"null": 0,
	} {
		s.tell(answer)
		if got := mustPoll(t, r, "w"); got.Odd != odd {
			t.Errorf("%.60s: %+v, want %d odd ones", answer, got, odd)
		}
	}
}

func TestFailuresSayWhyAndHoldNoSecret(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	f.say("w:a", `adopt{"state":"RUNNING"}`)
	n := f.count()
	ask := func(change func(p *connector.Poll)) error {
		r := reconciler(t, f, s, "waha", "w", func(c *Config) { change(c.Sources[0].Poll) })
		_, err := r.Poll(t.Context(), "w")
		if err == nil {
			t.Fatal("no error")
		}
		stats := r.Stats()
		if len(stats) != 1 || stats[0].Failures != 1 || stats[0].Polls != 0 || stats[0].LastError == "" {
			t.Errorf("stats: %+v", stats)
		}
		return err
	}
	none := func(*connector.Poll) {}
	for want, give := range map[string]func() error{
		"check the key":   func() error { return ask(func(p *connector.Poll) { p.Key = "wrong-s3cret" }) },
		"not a JSON list": func() error { s.tell(`{"message":"s3cret"}`); return ask(none) },
		"answered 503":    func() error { s.set(503, nil); defer s.set(0, nil); return ask(none) },
		"answered 302":    func() error { s.set(302, nil); defer s.set(0, nil); return ask(none) },
		"connection refused": func() error {
			return ask(func(p *connector.Poll) { p.URL = "http://u:s3cret@127.0.0.1:1/?key=s3cret" })
		},
		"did not answer in time": func() error {
			free := make(chan struct{})
			defer close(free)
			s.set(0, func() { <-free })
			defer s.set(0, nil)
			r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.Timeout = 20 * time.Millisecond })
			_, err := r.Poll(t.Context(), "w")
			return err
		},
	} {
		err := give()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("want a word about %q, got %v", want, err)
		}
	}
	if got := f.since(n); len(got) > 0 {
		t.Errorf("a failure published %q", got)
	}
	s.tell(list(wahaSession("a", "STOPPED")))
	f.fail = errors.New("the log is away")
	f.pass(time.Minute)
	r := reconciler(t, f, s, "waha", "w", nil)
	if _, err := r.Poll(t.Context(), "w"); !errors.Is(err, f.fail) {
		t.Errorf("a log that is away: %v", err)
	}
	if _, err := r.Poll(t.Context(), "nobody"); err == nil {
		t.Error("a source that is not polled was polled")
	}
}

func TestARedirectionDoesNotGetTheKey(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	thief := newServer(t)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	front := newServer(t)
	front.Config.Handler = http.RedirectHandler(thief.URL, http.StatusFound)
	r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.Sources[0].Poll.URL = front.URL })
	if _, err := r.Poll(t.Context(), "w"); err == nil {
		t.Error("no error")
	}
	if got := thief.paths(); len(got) > 0 {
		t.Errorf("the key was carried to %v", got)
	}
}

func TestAddresses(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	s.tell("[]")
	for _, c := range []struct{ kind, path, want string }{
		{"waha", "", "/api/sessions?all=true"}, {"waha", "/", "/api/sessions?all=true"}, {"waha", "/sub/", "/sub/api/sessions?all=true"}, {"waha", "/api/sessions", "/api/sessions?all=true"},
		{"evolution", "", "/instance/fetchInstances"}, {"evolution", "/instance/fetchInstances", "/instance/fetchInstances"},
	} {
		r := reconciler(t, f, s, c.kind, "w", func(cfg *Config) { cfg.Sources[0].Poll.URL = s.URL + c.path })
		mustPoll(t, r, "w")
		if got := s.paths(); got[len(got)-1] != c.want {
			t.Errorf("%s %q asks %s, want %s", c.kind, c.path, got[len(got)-1], c.want)
		}
	}
	s.tell(list(evo("a b/c", "open", `,"ownerJid":"155@s.whatsapp.net"`)))
	for _, path := range []string{"", "/instance/fetchInstances/"} {
		f := newFleet(t)
		mustPoll(t, reconciler(t, f, s, "evolution", "w", func(cfg *Config) { cfg.Sources[0].Poll.URL = s.URL + path }), "w")
		if got := s.paths(); got[len(got)-1] != "/instance/connectionState/a%20b%2Fc" {
			t.Errorf("%q: asks %s", path, got[len(got)-1])
		}
	}
}

func TestNewRefusesWhatCannotBePolled(t *testing.T) {
	f := newFleet(t)
	poll := &connector.Poll{URL: "http://127.0.0.1:1", Every: time.Minute}
	if _, err := New(Config{Ledger: f, Judge: f.judge, Sources: []*connector.Source{{Kind: "wuzapi", Name: "z", Poll: poll}}}); err == nil || !strings.Contains(err.Error(), "wuzapi") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{Judge: f.judge}); err == nil {
		t.Error("no ledger is needed?")
	}
	r, err := New(Config{Ledger: f, Judge: f.judge, Sources: []*connector.Source{{Kind: "wuzapi", Name: "z"}}})
	if err != nil || len(r.Stats()) != 0 {
		t.Errorf("a source without a poll: %v", err)
	}
	r.Run(t.Context()) // nothing to do: it returns
}
