package e2e

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog/powercuttest"
)

// TestPowerCut runs the program on a disk that forgets, at each cut, what was
// not synced. With group sync nothing that was acknowledged is lost.
func TestPowerCut(t *testing.T) {
	disk := powercuttest.Mount(t)
	l := &ledger{}
	const cuts = 20
	lost := cutsUnderLoad(t, disk, l, cuts, "group")
	if lost > 0 {
		t.Fatalf("%d acknowledged verdicts are not in the log", lost)
	}
	t.Logf("%d acknowledged verdicts, %d cuts, 0 lost", l.size(), cuts)
	if l.size() < 200 {
		t.Errorf("only %d verdicts: that is no load", l.size())
	}
}

// TestPowerCutSeesALoss: the same, with a sync mode that promises nothing of
// the kind, must find a loss, or the test above proves nothing.
func TestPowerCutSeesALoss(t *testing.T) {
	disk := powercuttest.Mount(t)
	for range 5 {
		if cutsUnderLoad(t, disk, &ledger{}, 1, "interval") > 0 {
			return
		}
	}
	t.Fatal("five cuts without a sync have lost nothing")
}

// cutsUnderLoad cuts the power under load again and again and returns how many
// of the acknowledged verdicts are gone afterwards.
func cutsUnderLoad(t *testing.T, disk *powercuttest.FS, l *ledger, cuts int, sync string) (lost int) {
	t.Helper()
	args := []string{"--data", filepath.Join(disk.Dir(), "data-"+sync), "--log-transitions=false", "--sync", sync, "--snapshot-every", "500"}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for cut := range cuts {
		p := serve(t, args...)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			load(t, "nats://"+p.nats, l, 32, 500, seed+uint64(cut), stop)
		}()
		wait := time.NewTimer(time.Duration(100+rnd.IntN(300)) * time.Millisecond)
		<-wait.C
		p.kill()
		close(stop)
		<-ended
		if err := disk.CutTearing(seed + uint64(cut)); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, args...)
	all := stored(t, p)
	l.mu.Lock()
	for _, pr := range l.promises {
		if pr.Version > uint64(len(all[pr.Account])) || all[pr.Account][pr.Version-1].ID != pr.ID {
			lost++
		}
	}
	l.mu.Unlock()
	if lost == 0 {
		l.check(t, all)
		if got, _ := p.digest(); got != fold(all) {
			t.Errorf("digest %s, the log's fold %s", got, fold(all))
		}
	}
	p.stop()
	return lost
}
