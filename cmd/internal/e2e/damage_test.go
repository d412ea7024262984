package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// heavy sends rounds of triggers with much data to accounts, so that the
// stream grows to several block files, and returns how many events each has.
func heavy(t *testing.T, p *proc, accounts, rounds int) map[string]int {
	t.Helper()
	nc := p.connect()
	defer nc.Close()
	pad := strings.Repeat("x", 100_000)
	for r := range rounds {
		for a := range accounts {
			body, _ := json.Marshal(map[string]any{
				"account": fmt.Sprintf("acct-%02d", a), "trigger": storyline[r%len(storyline)], "source": "load",
				"data": map[string]any{"pad": pad},
			})
			m, err := nc.Request(fmt.Sprintf("muster.cmd.acct-%02d", a), body, 10*time.Second)
			if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
				t.Fatalf("send: %v %v", err, m)
			}
		}
	}
	counts := map[string]int{}
	for a := range accounts {
		counts[fmt.Sprintf("acct-%02d", a)] = rounds
	}
	return counts
}

// blocks are the block files of partition 0, oldest first.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "nats", "jetstream", "$G", "streams", "MUSTER_EV_00", "msgs", "*.blk"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d block files, want several: %v", len(files), err)
	}
	slices.SortFunc(files, func(a, b string) int { return blockNumber(a) - blockNumber(b) })
	return files
}

func blockNumber(path string) (n int) {
	_, _ = fmt.Sscanf(filepath.Base(path), "%d.blk", &n)
	return n
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0x10
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedStore damages the store of a killed, and of a stopped, server. The
// next start names the accounts that have lost events, refuses their writes
// and serves the others; so does the start after that.
func TestDamagedStore(t *testing.T) {
	hurts := map[string]func(t *testing.T, dir string){
		"a flipped bit in the first block": func(t *testing.T, dir string) { flip(t, blocks(t, dir)[0]) },
		"a flipped bit in the last block": func(t *testing.T, dir string) {
			b := blocks(t, dir)
			flip(t, b[len(b)-1])
		},
		"a truncated block": func(t *testing.T, dir string) {
			path := blocks(t, dir)[0]
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, st.Size()/2); err != nil {
				t.Fatal(err)
			}
		},
		"a deleted block": func(t *testing.T, dir string) {
			if err := os.Remove(blocks(t, dir)[1]); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, hurt := range hurts {
		for how, end := range map[string]func(*proc){"killed": (*proc).kill, "stopped": (*proc).stop} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				args := []string{"--data", dir, "--partitions", "1", "--log-transitions=false"}
				p := serve(t, args...)
				had := heavy(t, p, 24, 12)
				end(p)
				hurt(t, dir)
				for range 2 {
					p = serve(t, args...)
					checkDamage(t, p, had)
					p.stop()
				}
			})
		}
	}
}

// checkDamage compares what the server says with what the accounts had.
func checkDamage(t *testing.T, p *proc, had map[string]int) {
	t.Helper()
	all := stored1(t, p)
	nc := p.connect()
	defer nc.Close()
	said := p.out.String()
	hurt := 0
	for account, n := range had {
		m := send(t, nc, account, "user_action_needed")
		refused := strings.Contains(string(m.Data)+m.Header.Get("Nats-Service-Error"), "damaged")
		whole := len(all[account]) >= n
		switch {
		case !whole && !refused:
			t.Fatalf("account %s has %d of %d events, and its write was not refused: %s\n%s", account, len(all[account]), n, m.Data, said)
		case whole && refused && !strings.Contains(said, account):
			t.Fatalf("account %s is refused and not named", account)
		case !whole && !strings.Contains(said, account):
			t.Fatalf("account %s has %d of %d events and is not named:\n%s", account, len(all[account]), n, said)
		case !whole:
			hurt++
		default:
			if !refused {
				had[account]++
			}
		}
	}
	if hurt == 0 {
		t.Fatalf("no account has lost anything: the test damaged nothing")
	}
	t.Logf("%d of %d accounts are damaged, named and refused", hurt, len(had))
}

// send sends one trigger and returns the answer, whatever it is.
func send(t *testing.T, nc *nats.Conn, account, name string) *nats.Msg {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"account": account, "trigger": name, "source": "load"})
	m, err := nc.Request("muster.cmd."+account, body, 10*time.Second)
	if err != nil {
		t.Fatalf("send %s to %s: %v", name, account, err)
	}
	return m
}

// TestATornLastRecord: what a crash leaves of a record at the end of a block is
// dropped, and nothing that was acknowledged with it.
func TestATornLastRecord(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data", dir, "--partitions", "1", "--log-transitions=false"}
	p := serve(t, args...)
	heavy(t, p, 10, 10)
	before, _ := p.digest()
	p.kill()
	files := blocks(t, dir)
	last, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	// The first half of the block's first record, as if one more had been begun.
	torn := append(last, last[:60_000]...)
	if err := os.WriteFile(files[len(files)-1], torn, 0o644); err != nil {
		t.Fatal(err)
	}
	p = serve(t, args...)
	if after, _ := p.digest(); after != before {
		t.Fatalf("digest %s, before %s\n%s", after, before, p.out)
	}
	nc := p.connect()
	if m := send(t, nc, "acct-00", "stop"); m.Header.Get("Nats-Service-Error-Code") != "" {
		t.Fatalf("%s %v", m.Data, m.Header)
	}
}

// TestADamagedSnapshot: a flipped bit in the snapshots is told, and the history
// is read instead.
func TestADamagedSnapshot(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data", dir, "--log-transitions=false"}
	p := serve(t, args...)
	l := &ledger{}
	stop := make(chan struct{})
	go func() { <-time.After(time.Second); close(stop) }()
	load(t, "nats://"+p.nats, l, 16, 200, 1, stop)
	before, _ := p.digest()
	p.stop() // writes the snapshots
	files, err := filepath.Glob(filepath.Join(dir, "nats", "jetstream", "$G", "streams", "OBJ_*", "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshots are stored: %v", err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 { // somewhere in every snapshot
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		if err := os.WriteFile(f, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p = serve(t, args...)
	if after, _ := p.digest(); after != before {
		t.Fatalf("digest %s, before %s\n%s", after, before, p.out)
	}
	if !strings.Contains(p.out.String(), "snapshot was not used") {
		t.Fatalf("nothing is said about the snapshots:\n%s", p.out)
	}
}

// TestKill9AtNewBlocks kills the server while its streams often begin new block
// files and snapshots are always being written.
func TestKill9AtNewBlocks(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data", dir, "--partitions", "1", "--log-transitions=false", "--snapshot-every", "100"}
	l := &ledger{}
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	most := 0
	for range 6 {
		p := serve(t, args...)
		all := stored1(t, p)
		l.check(t, all)
		done := make(chan struct{})
		go func() {
			defer close(done)
			heavyLoad(p.nats, l)
		}()
		wait := time.NewTimer(time.Duration(200+rnd.IntN(500)) * time.Millisecond)
		<-wait.C
		p.kill()
		<-done
		files, _ := filepath.Glob(filepath.Join(dir, "nats", "jetstream", "$G", "streams", "MUSTER_EV_00", "msgs", "*.blk"))
		most = max(most, len(files))
	}
	p := serve(t, args...)
	all := stored1(t, p)
	l.check(t, all)
	sameDigest(t, p, 1)
	if most < 3 {
		t.Fatalf("only %d block files: the test did not do what it is for", most)
	}
	t.Logf("%d acknowledged, %d block files", l.size(), most)
}

// heavyLoad sends triggers with much data until the server is gone.
func heavyLoad(addr string, l *ledger) {
	nc, err := nats.Connect("nats://"+addr, nats.NoReconnect())
	if err != nil {
		return
	}
	defer nc.Close()
	pad := strings.Repeat("y", 150_000)
	done := make(chan struct{})
	for c := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := 0; ; i++ {
				id := l.id()
				account := fmt.Sprintf("acct-%d", c)
				body, _ := json.Marshal(map[string]any{
					"id": id, "account": account, "trigger": storyline[i%len(storyline)], "source": "load", "data": map[string]any{"pad": pad},
				})
				m, err := nc.Request("muster.cmd."+account, body, 10*time.Second)
				if err != nil {
					return
				}
				pr := promise{ID: id}
				if m.Header.Get("Nats-Service-Error-Code") == "" && json.Unmarshal(m.Data, &pr) == nil {
					l.add(pr)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
}
