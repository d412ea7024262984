package command_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/memlog"
)

// notes is an Observer that remembers.
type notes struct {
	mu        sync.Mutex
	groups    []command.Group
	traces    []string
	outcomes  []string
	snapshots int
}

func (n *notes) Group(g *command.Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range g.Events {
		n.traces = append(n.traces, e.Traceparent)
	}
	c := *g
	c.Events = nil
	n.groups = append(n.groups, c)
}

func (n *notes) Answered(o domain.Outcome, err error, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := o.String()
	if err != nil {
		name = "error"
	}
	if took < 0 || took > time.Minute {
		name += " in " + took.String()
	}
	n.outcomes = append(n.outcomes, name)
}

func (n *notes) Snapshot(int, time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.snapshots++
}

// TestObserver: groups, answers and snapshots are told as they are.
func TestObserver(t *testing.T) {
	n := &notes{}
	store := new(memlog.Blobs)
	log := memlog.New(1)
	s := open(t, command.Config{Log: log, Blobs: store, Observer: n})
	traced := trigger("acct-1", "start", "i-1")
	traced.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tr := range []domain.Trigger{
		traced, trigger("acct-1", "qr_received", "i-2"), trigger("acct-1", "qr_received", "i-2"), trigger("acct-1", "nonsense", "i-3"),
	} {
		s.Do(t.Context(), tr)
	}
	shut(t, s)
	if want := []string{"applied", "applied", "duplicate", "invalid"}; !slices.Equal(n.outcomes, want) {
		t.Errorf("answered %q, want %q", n.outcomes, want)
	}
	if len(n.groups) != 2 { // the duplicate and the invalid one store nothing
		t.Fatalf("%d groups, want 2: %+v", len(n.groups), n.groups)
	}
	for i, g := range n.groups {
		if g.Requests != 1 || g.Records != 1 || g.Err != nil || g.Last != uint64(i+1) || g.Judged.Before(g.Began) || g.Stored.Before(g.Judged) {
			t.Errorf("group %d: %+v", i, g)
		}
	}
	if want := []string{traced.Traceparent}; !slices.Equal(n.traces, want) {
		t.Errorf("traces %q, want %q", n.traces, want)
	}
	if n.snapshots != 1 {
		t.Errorf("%d snapshots were told, want the one at the end", n.snapshots)
	}
	again := &notes{}
	shut(t, open(t, command.Config{Log: log, Blobs: store, Observer: again}))
	if again.snapshots != 1 {
		t.Errorf("%d snapshots were told, want the one that was read", again.snapshots)
	}
}
