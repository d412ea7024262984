package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
)

// Two logs write the same accounts of one partition, each group with what it
// believes to be last. Every expected sequence is won once, and what each was
// told is what the log holds.
func TestContention(t *testing.T) {
	for _, at := range places(t) {
		t.Run(at.name, func(t *testing.T) {
			x := newTrial(t, at)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var writers sync.WaitGroup
			wins := make([]map[uint64]string, 2)
			conflicts := make([]int, 2)
			for i := range wins {
				log := open(t, connect(t, at.servers[i%len(at.servers)].URL()), natslog.Config{Partitions: 1, Replicas: at.replicas})
				writers.Go(func() { wins[i], conflicts[i] = fight(ctx, t, log, fmt.Sprintf("writer-%d", i)) })
			}
			writers.Wait()
			held := map[uint64]string{}
			last := map[string]uint64{}
			for _, r := range eventlogtest.MustCollect(t, x.log.Read(t.Context(), 0, x.seq)) {
				held[r.Seq] = string(r.Data)
				if expect := fmt.Sprintf(" after %d", last[r.Account]); !strings.HasSuffix(string(r.Data), expect) {
					t.Errorf("sequence %d of %s holds %q, its account's last was%s", r.Seq, r.Account, r.Data, expect)
				}
				last[r.Account] = r.Seq
			}
			for i := range wins {
				if len(wins[i]) < 10 || conflicts[i] == 0 {
					t.Errorf("writer %d won %d times and lost %d times: that was no fight", i, len(wins[i]), conflicts[i])
				}
				for seq, data := range wins[i] {
					if held[seq] != data {
						t.Errorf("writer %d was told that %q is at %d, there is %q", i, data, seq, held[seq])
					}
				}
			}
			if sum := len(wins[0]) + len(wins[1]); sum != len(held) {
				t.Errorf("%d records, %d wins", len(held), sum)
			}
		})
	}
}

// fight appends groups until ctx ends and returns what it won by sequence, and
// how often it lost.
func fight(ctx context.Context, t *testing.T, log eventlog.Log, name string) (won map[uint64]string, lost int) {
	accounts := []string{"p", "q", "r", "s"}
	won = map[uint64]string{}
	last := map[string]uint64{}
	for ctx.Err() == nil {
		rand.Shuffle(len(accounts), func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] })
		var group []eventlog.Entry
		for _, a := range accounts[:3] {
			group = append(group, eventlog.Entry{Account: a, Expect: last[a], Data: fmt.Appendf(nil, "%s after %d", name, last[a])})
		}
		for i, r := range log.Append(context.WithoutCancel(ctx), 0, group) {
			a := group[i].Account
			switch {
			case r.Err == nil:
				won[r.Seq], last[a] = string(group[i].Data), r.Seq
				continue
			case !errors.Is(r.Err, eventlog.ErrConflict):
				t.Errorf("append: %v", r.Err)
				return won, lost
			}
			lost++
			found, err := log.Last(context.WithoutCancel(ctx), a)
			if err != nil && !errors.Is(err, eventlog.ErrNotFound) {
				t.Errorf("reload: %v", err)
				return won, lost
			}
			last[a] = found.Seq
		}
	}
	return won, lost
}
