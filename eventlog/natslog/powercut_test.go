package natslog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/natstest"
	"github.com/musterhq/muster/eventlog/powercuttest"
)

const cutPartitions = 2

// powerCutChild is the process that dies: an embedded server and a log with
// its store under dir. It prints every record that it finds ("has"), "ready",
// and then every record it appends, once it is acknowledged ("acked").
func powerCutChild(dir, mode string) error {
	s, err := natstest.Start(dir, func(o *server.Options) { o.SyncAlways = mode == string(barrier.SyncAlways) })
	if err != nil {
		return err
	}
	nc, err := s.Connect()
	if err != nil {
		return err
	}
	b, err := barrier.Open(barrier.Config{
		StoreDir: dir, Partitions: cutPartitions, Mode: barrier.Mode(mode), MarkFile: filepath.Join(dir, "marks"),
	})
	if err != nil {
		return err
	}
	log, err := natslog.Open(context.Background(), nc, natslog.Config{Partitions: cutPartitions, Barrier: b})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	last := map[string]uint64{}
	for p := range cutPartitions {
		for r, err := range log.Read(context.Background(), p, 0) {
			if err != nil {
				return err
			}
			last[r.Account] = r.Seq
			_, _ = fmt.Fprintf(out, "has %d %d %s\n", p, r.Seq, r.Data)
		}
	}
	_, _ = fmt.Fprintln(out, "ready")
	if err := out.Flush(); err != nil {
		return err
	}
	return appendForEver(log, last, out)
}

// appendForEver appends groups of random size to both partitions.
func appendForEver(log eventlog.Log, last map[string]uint64, out *bufio.Writer) error {
	run := rand.Uint64()
	for n := 0; ; n++ {
		p := n % cutPartitions
		accounts := natsAccounts[p][:1+rand.IntN(100)]
		var group []eventlog.Entry
		for i, a := range accounts {
			pad := strings.Repeat("x", rand.IntN(2000))
			group = append(group, eventlog.Entry{Account: a, Expect: last[a], Data: fmt.Appendf(nil, "%s-%x-%d-%d-%s", a, run, n, i, pad)})
		}
		for i, r := range log.Append(context.Background(), p, group) {
			if r.Err != nil {
				return fmt.Errorf("append: %w", r.Err)
			}
			last[accounts[i]] = r.Seq
			_, _ = fmt.Fprintf(out, "acked %d %d %s\n", p, r.Seq, group[i].Data)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// natsAccounts are 100 accounts of each partition.
var natsAccounts = func() (accounts [cutPartitions][]string) {
	for i := 0; len(accounts[0]) < 100 || len(accounts[1]) < 100; i++ {
		a := fmt.Sprintf("acct-%d", i)
		p := eventlog.Partition(a, cutPartitions)
		accounts[p] = append(accounts[p], a)
	}
	return accounts
}()

// cutRound runs the child until it is killed at a random instant. It counts
// what of the ledger the child does not find, and then makes the ledger what
// is there and is acknowledged now.
func cutRound(t *testing.T, dir string, mode barrier.Mode, ledger map[string]string) (lost, acked int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, dir)
	cmd.Env = append(os.Environ(), childEnv+"="+string(mode))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	startup := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	has := map[string]string{}
	ready := false
	lines := bufio.NewReaderSize(stdout, 1<<20)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			break // a last line that was not written to its end was not said
		}
		verb, rest, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		switch verb {
		case "has":
			put(has, rest)
		case "ready":
			ready = true
			startup.Stop()
			lost = missing(ledger, has)
			clear(ledger)
			maps.Copy(ledger, has)
			time.AfterFunc(time.Duration(150+rand.IntN(350))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		case "acked":
			acked++
			put(ledger, rest)
		}
	}
	err = cmd.Wait()
	if startup.Stop(); !ready || err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v (ready: %v): %s", err, ready, complaints.String())
	}
	return lost, acked
}

// put notes a record under partition and sequence.
func put(m map[string]string, rest string) {
	p, rest, _ := strings.Cut(rest, " ")
	seq, data, _ := strings.Cut(rest, " ")
	m[p+" "+seq] = data
}

// missing counts the records of the ledger that are not there, or are others.
func missing(ledger, has map[string]string) (n int) {
	for at, data := range ledger {
		if found, ok := has[at]; !ok || found != data {
			n++
		}
	}
	return n
}

func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("power cuts take half a minute: run without -short")
	}
	disk := powercuttest.Mount(t)
	const cuts = 20
	ledger, total := map[string]string{}, 0
	for i := range cuts + 1 {
		lost, acked := cutRound(t, disk.Dir(), barrier.SyncGroup, ledger)
		if lost > 0 {
			t.Fatalf("cut %d: %d acknowledged records are gone", i, lost)
		}
		total += acked
		cutPower(t, disk, i)
	}
	if total < 500 {
		t.Errorf("only %d records were acknowledged: that is no load", total)
	}
	t.Logf("%d acknowledged records, %d cuts, 0 lost", total, cuts)
}

// The same test sees a loss where one must be.
func TestPowerCutLosesWhatIsOnlySyncedNowAndThen(t *testing.T) {
	if testing.Short() {
		t.Skip("power cuts take half a minute: run without -short")
	}
	disk := powercuttest.Mount(t)
	ledger, lost := map[string]string{}, 0
	for i := range 4 {
		n, _ := cutRound(t, disk.Dir(), barrier.SyncInterval, ledger)
		lost += n
		cutPower(t, disk, i)
	}
	if lost == 0 {
		t.Error("nothing was lost without the barrier: this test cannot see a loss")
	}
	t.Logf("%d acknowledged records lost in 4 rounds", lost)
}

// cutPower cuts the power; every second time the disk keeps some of what was
// not synced.
func cutPower(t *testing.T, disk *powercuttest.FS, i int) {
	t.Helper()
	cut := disk.Cut
	if i%2 == 1 {
		seed := rand.Uint64()
		cut = func() error { return disk.CutTearing(seed) }
		t.Logf("cut %d tears with seed %d", i, seed)
	}
	if err := cut(); err != nil {
		t.Fatal(err)
	}
}

// A full disk is refused with a sentence before the server meets it; should it
// meet it all the same, nothing is acknowledged that is not stored.
func TestFullDiskAcknowledgesNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve int64
		class   string
	}{{"seen in time", 0, "refused"}, {"not looked at", -1, "unknown"}} {
		t.Run(c.name, func(t *testing.T) {
			disk := powercuttest.Mount(t)
			s, err := natstest.Start(disk.Dir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Stop)
			b := openBarrier(t, barrier.Config{StoreDir: disk.Dir(), Partitions: 1, Mode: barrier.SyncGroup, Reserve: c.reserve})
			log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b, AckWait: 500 * time.Millisecond})
			seq := eventlogtest.Store(t, log, "a", 0, "before")
			disk.Fill(true)
			r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a", Expect: seq, Data: []byte("x")}})[0]
			if got := eventlogtest.Class(r); got != c.class {
				t.Errorf("append to a full disk: %s (%v), want %s", got, r.Err, c.class)
			}
			s.Stop()
			disk.Fill(false)
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			again := open(t, s.Conn(t), natslog.Config{Partitions: 1})
			if got := eventlogtest.MustCollect(t, again.Read(t.Context(), 0, 0)); len(got) != 1 || string(got[0].Data) != "before" {
				t.Errorf("%d records afterwards", len(got))
			}
		})
	}
}
