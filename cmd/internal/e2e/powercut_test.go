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
		if lost = l.lost(stored(t, p)); lost > 0 {
			t.Logf("after cut %d, %d of %d are lost\n%s", cut, lost, l.size(), p.out)
			return lost
		}
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
		cutPower := disk.Cut
		if cut%2 == 1 { // some of what was not synced stays, some does not
			cutPower = func() error { return disk.CutTearing(seed + uint64(cut)) }
		}
		if err := cutPower(); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, args...)
	all := stored(t, p)
	lost = l.lost(all)
	if lost == 0 {
		l.check(t, all)
		sameDigest(t, p, partitions)
	}
	p.stop()
	return lost
}

// lost counts the promises that the log does not keep.
func (l *ledger) lost(all map[string][]storedEvent) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.promises {
		if events := all[p.Account]; p.Version > uint64(len(events)) || events[p.Version-1].ID != p.ID {
			n++
		}
	}
	return n
}
