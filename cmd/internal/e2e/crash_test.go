package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// roundsOf is how often a test does what it does: as its variable says, else
// usual times.
func roundsOf(t *testing.T, variable string, usual int) int {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		return usual
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: a number of rounds is wanted", variable, v)
	}
	return n
}

// TestKill9 kills the server with SIGKILL at random moments under load and
// starts it again on the same data. After every round all that was ever
// acknowledged is in the log, once, as it was answered, and the restarted
// server's digest is that of a plain fold of the log.
func TestKill9(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	l := &ledger{}
	// A small number of events between snapshots lets many kills fall into one.
	args := []string{"--data", dir, "--log-transitions=false", "--snapshot-every", "2000"}
	p := serve(t, args...)
	for round := range roundsOf(t, "MUSTER_CRASH_ROUNDS", 25) {
		stop, ended := make(chan struct{}), make(chan struct{})
		before := l.size()
		go func() {
			defer close(ended)
			load(t, "nats://"+p.nats, l, 64, 2000, seed+uint64(round), stop)
		}()
		wait := time.NewTimer(time.Duration(50+rnd.IntN(350)) * time.Millisecond)
		<-wait.C
		p.kill()
		close(stop)
		<-ended
		if round%5 == 4 { // and sometimes kill it again while it starts
			q := start(t, args...)
			early := time.NewTimer(time.Duration(rnd.IntN(150)) * time.Millisecond)
			<-early.C
			q.kill()
		}
		p = serve(t, args...)
		all := stored(t, p)
		l.check(t, all)
		sameDigest(t, p, partitions)
		if l.size() == before {
			t.Logf("round %d: killed before anything was acknowledged", round)
		}
	}
	t.Logf("%d acknowledged verdicts, all in the log", l.size())
	if l.size() == 0 {
		t.Fatal("nothing was ever acknowledged: the test saw nothing")
	}
}
