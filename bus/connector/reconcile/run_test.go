package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// naps records for how long a reconciler waits, and lets it wait no time at all;
// the last one ends the run.
type naps struct {
	mu   sync.Mutex
	took []time.Duration
	most int
	each func(n int)
}

func (n *naps) sleep(ctx context.Context, d time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.took = append(n.took, d)
	if n.each != nil {
		n.each(len(n.took))
	}
	return len(n.took) < n.most && ctx.Err() == nil
}

func between(t *testing.T, what string, d, least, most time.Duration) {
	t.Helper()
	if d < least || d > most {
		t.Errorf("%s: waits %v, want %v to %v", what, d, least, most)
	}
}

func TestWhenASourceIsAsked(t *testing.T) {
	firsts := map[time.Duration]bool{}
	for range 20 {
		f, s := newFleet(t), newServer(t)
		s.tell("[]")
		n := &naps{most: 5}
		r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.sleep = n.sleep })
		r.Run(t.Context())
		firsts[n.took[0]] = true
		between(t, "first", n.took[0], 0, 5*time.Second)
		between(t, "once accounts have come into doubt", n.took[1], 35*time.Second, 40*time.Second)
		for _, d := range n.took[2:] {
			between(t, "ever after", d, 270*time.Second, 330*time.Second)
		}
	}
	if len(firsts) < 10 {
		t.Errorf("20 starts ask at %d different moments", len(firsts))
	}
}

func TestAnIntervalThatIsShorterThanTheDoubt(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	s.tell("[]")
	n := &naps{most: 4}
	r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.sleep, c.Sources[0].Poll.Every = n.sleep, 2*time.Second })
	r.Run(t.Context())
	between(t, "first", n.took[0], 0, 2*time.Second)
	for _, d := range n.took[1:] {
		between(t, "later", d, 1800*time.Millisecond, 2200*time.Millisecond)
	}
}

func TestAServerThatFailsIsAskedLaterAndLater(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	s.tell("[]")
	s.set(503, nil)
	n := &naps{most: 16, each: func(n int) {
		if n == 14 {
			s.set(0, nil)
		}
	}}
	r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.sleep = n.sleep })
	r.Run(t.Context())
	// 2 s doubles with every failure, give or take a half, up to the interval.
	base := 2 * time.Second
	for i := 1; i < 14; i++ {
		between(t, fmt.Sprintf("failure %d", i), n.took[i], base/2, min(base+base/2, 5*time.Minute))
		base = min(2*base, 5*time.Minute)
	}
	between(t, "after it came back", n.took[14], 35*time.Second, 40*time.Second)
	if st := r.Stats()[0]; st.Failures != 13 || st.Polls != 2 || st.LastError != "" {
		t.Errorf("stats: %+v", st)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	asked, free := make(chan struct{}, 1), make(chan struct{})
	s.set(0, func() { asked <- struct{}{}; <-free })
	defer close(free)
	r := reconciler(t, f, s, "waha", "w", func(c *Config) { c.sleep = func(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil } })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	<-asked
	cancel()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not end")
	}
}

func TestATakenOverFleetIsNoStorm(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	var sessions []string
	for i := range 60 {
		sessions = append(sessions, evo(fmt.Sprintf("i%02d", i), "open", `,"ownerJid":"155@s.whatsapp.net"`))
		s.states[fmt.Sprintf("i%02d", i)] = "open"
	}
	s.tell(list(sessions...))
	var mu sync.Mutex
	under, most := 0, 0
	handler := s.Config.Handler
	s.Config.Handler = counted(handler, func(by int) {
		mu.Lock()
		defer mu.Unlock()
		under += by
		most = max(most, under)
	})
	r := reconciler(t, f, s, "evolution", "w", func(c *Config) { c.PerSecond, c.Parallel = 200, 2 })
	begin := time.Now()
	report := mustPoll(t, r, "w")
	// 60 questions and 60 triggers, of which 20 may go at once.
	if took := time.Since(begin); took < 450*time.Millisecond {
		t.Errorf("120 steps at 200 a second took %v", took)
	}
	if report.Published != 60 || report.Changed != 60 || most > 2 || most == 0 {
		t.Errorf("%+v, %d requests at once", report, most)
	}
	for i := range 60 {
		if got := f.state(domain.AccountID(fmt.Sprintf("w:i%02d", i))); got != "RUNNING" {
			t.Fatalf("account %d is %q", i, got)
		}
	}
}

func TestSeveralSourcesDoNotMixTheirAccounts(t *testing.T) {
	f, s1, s2 := newFleet(t), newServer(t), newServer(t)
	s1.tell(list(wahaSession("default", "WORKING")))
	s2.tell(list(wahaSession("default", "SCAN_QR_CODE")))
	r := reconciler(t, f, s1, "waha", "w1", func(c *Config) {
		c.Sources = append(c.Sources, &connector.Source{Kind: "waha", Name: "w2", Poll: &connector.Poll{URL: s2.URL, Key: theKey, Every: time.Minute}})
	})
	mustPoll(t, r, "w1")
	mustPoll(t, r, "w2")
	if f.state("w1:default") != "RUNNING" || f.state("w2:default") != "QR_REQUIRED" {
		t.Errorf("%s and %s", f.state("w1:default"), f.state("w2:default"))
	}
	if got := r.Stats(); len(got) != 2 || got[0].Source != "w1" || got[1].Published != 1 || got[0].LastAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

// counted tells f when a request begins and when it ends.
func counted(h http.Handler, f func(by int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f(1)
		defer f(-1)
		h.ServeHTTP(w, r)
	})
}
