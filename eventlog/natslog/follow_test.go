package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

// followInto follows partition 0 and sends each sequence; the channel is
// closed when it ends, and an error that ended it is sent to errs.
func followInto(ctx context.Context, log eventlog.Log, after uint64) (seqs chan uint64, errs chan error) {
	seqs, errs = make(chan uint64, 100_000), make(chan error, 1)
	go func() {
		defer close(seqs)
		for r, err := range log.Follow(ctx, 0, after) {
			if err != nil {
				errs <- err
				return
			}
			seqs <- r.Seq
		}
	}()
	return seqs, errs
}

// expectTo takes sequences until one, each the next of the one before.
func expectTo(t *testing.T, seqs <-chan uint64, next *uint64, end uint64) {
	t.Helper()
	patience := time.After(30 * time.Second)
	for *next <= end {
		select {
		case seq, ok := <-seqs:
			if !ok || seq != *next {
				t.Fatalf("followed to %d (going on: %v), want %d", seq, ok, *next)
			}
			*next++
		case <-patience:
			t.Fatalf("stuck before %d", *next)
		}
	}
}

// append100 appends until 100 more records are stored, whatever happens to the
// connection, and returns the last sequence.
func append100(t *testing.T, log eventlog.Log, account string) (last uint64) {
	t.Helper()
	end := time.After(30 * time.Second)
	var mine uint64
	for i := range 100 {
		for {
			r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: account, Expect: mine, Data: fmt.Append(nil, i)}})[0]
			if r.Err == nil {
				mine = r.Seq
				break
			}
			found, err := log.Last(t.Context(), account)
			if err == nil && string(found.Data) == fmt.Sprint(i) { // it was stored after all
				mine = found.Seq
				break
			}
			select {
			case <-end:
				t.Fatalf("append: %v, %v", r.Err, err)
			default:
			}
		}
	}
	return mine
}

func TestFollowSurvivesARestart(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	ctx, cancel := context.WithCancel(t.Context())
	seqs, errs := followInto(ctx, log, 0)
	next := uint64(1)
	for i := range 4 {
		expectTo(t, seqs, &next, append100(t, log, fmt.Sprint("a", i)))
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	expectTo(t, seqs, &next, append100(t, log, "b"))
	cancel()
	for seq := range seqs {
		t.Errorf("sequence %d after the end", seq)
	}
	if len(errs) > 0 {
		t.Error(<-errs)
	}
}

func TestFollowSurvivesCutConnections(t *testing.T) {
	s := natstest.Run(t, natstest.Listen)
	proxy := natstest.NewProxy(t, s)
	log := open(t, connect(t, proxy.URL()), natslog.Config{Partitions: 1})
	writes := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seqs, errs := followInto(ctx, log, 0)
	next := uint64(1)
	for i := range 5 {
		last := append100(t, writes, fmt.Sprint("a", i))
		proxy.Cut()
		expectTo(t, seqs, &next, last)
	}
	if len(errs) > 0 {
		t.Error(<-errs)
	}
}

func TestFollowSurvivesALeaderChange(t *testing.T) {
	c := natstest.RunCluster(t)
	nc := c.Conn(t)
	log := open(t, nc, natslog.Config{Partitions: 1, Replicas: 3, AckWait: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seqs, errs := followInto(ctx, log, 0)
	next := uint64(1)
	for i := range 3 {
		expectTo(t, seqs, &next, append100(t, log, fmt.Sprint("a", i)))
		c.StepDown(t, nc, "MUSTER_EV_00")
	}
	last := append100(t, log, "b")
	c.Servers[1].Stop()
	expectTo(t, seqs, &next, last)
	expectTo(t, seqs, &next, append100(t, log, "c"))
	if len(errs) > 0 {
		t.Error(<-errs)
	}
}

func TestReadGoesOnOverARestart(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	for i := range 300 {
		append100(t, log, fmt.Sprint("a", i))
	}
	next := uint64(0)
	for r, err := range log.Read(t.Context(), 0, 0) {
		if next++; err != nil || r.Seq != next {
			t.Fatalf("record %d: %d, %v", next, r.Seq, err)
		}
		if next == 5000 {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if next != 30_000 {
		t.Errorf("read %d records, want 30000", next)
	}
}

func TestFollowOfAnotherStreamEnds(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	log := open(t, nc, natslog.Config{Partitions: 1})
	seqs, errs := followInto(t.Context(), log, 0)
	next := uint64(1)
	expectTo(t, seqs, &next, append100(t, log, "a"))
	s.Wipe(t, nc)
	open(t, nc, natslog.Config{Partitions: 1})
	select {
	case err := <-errs:
		if !strings.Contains(err.Error(), "created anew") && !strings.Contains(err.Error(), "not found") {
			t.Errorf("follow ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("follow goes on after the stream was created anew")
	}
}

func TestClosedLogEndsItsReaders(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	eventlogtest.Store(t, log, "a", 0, "x")
	seqs, errs := followInto(t.Context(), log, 0)
	<-seqs
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err == nil {
		t.Error("follow of a closed log ends without an error")
	}
	r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "b"}})[0]
	if !errors.Is(r.Err, eventlog.ErrUnknown) {
		t.Errorf("append to a closed log: %v", r.Err)
	}
}
