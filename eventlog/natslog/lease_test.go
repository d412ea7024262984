package natslog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

func leases(t *testing.T, nc *nats.Conn, replicas int) *natslog.Leases {
	t.Helper()
	l, err := natslog.OpenLeases(t.Context(), nc, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t *testing.T, l *natslog.Leases, partition int, owner string, wait time.Duration) *natslog.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	lease, err := l.Acquire(ctx, partition, owner, natslog.MinLease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// held demands that another owner cannot have the partition for so long.
func held(t *testing.T, l *natslog.Leases, partition int, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if _, err := l.Acquire(ctx, partition, "intruder", natslog.MinLease); !errors.Is(err, natslog.ErrHeld) {
		t.Errorf("acquire of a held partition: %v, want ErrHeld", err)
	}
}

func TestLeaseIsHeldUntilReleased(t *testing.T) {
	for _, at := range places(t) {
		t.Run(at.name, func(t *testing.T) {
			nc := connect(t, at.servers[0].URL())
			l := leases(t, nc, at.replicas)
			first := acquire(t, l, 0, "one", 5*time.Second)
			held(t, l, 0, 2500*time.Millisecond) // longer than its life: it renews itself
			acquire(t, l, 1, "two", 5*time.Second)
			if err := first.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := acquire(t, l, 0, "two", 5*time.Second)
			if second.Revision() <= first.Revision() {
				t.Errorf("revision %d after %d", second.Revision(), first.Revision())
			}
			select {
			case <-second.Lost():
				t.Error("a renewed lease is lost")
			default:
			}
		})
	}
}

func TestLeaseOfADeadHolderExpires(t *testing.T) {
	s := natstest.Run(t, natstest.Listen)
	proxy := natstest.NewProxy(t, s)
	first := acquire(t, leases(t, connect(t, proxy.URL()), 1), 0, "dead", 5*time.Second)
	proxy.Mute(true) // neither knows: its renewals may still arrive, their answers do not
	proxy.Cut()
	begin := time.Now()
	second := acquire(t, leases(t, s.Conn(t), 1), 0, "next", 10*time.Second)
	if second.Revision() <= first.Revision() {
		t.Errorf("revision %d after %d", second.Revision(), first.Revision())
	}
	select {
	case <-first.Lost():
	case <-time.After(5 * time.Second):
		t.Error("the dead holder does not know that it lost its lease")
	}
	if d := time.Since(begin); d > 4*time.Second {
		t.Errorf("it took %v to take over", d)
	}
}

func TestLeaseOfAnEarlierRunIsTakenOverAtOnce(t *testing.T) {
	s := natstest.Run(t)
	l := leases(t, s.Conn(t), 1)
	first := acquire(t, l, 0, "same", 5*time.Second)
	second := acquire(t, l, 0, "same", natslog.MinLease/2)
	if second.Revision() <= first.Revision() {
		t.Errorf("revision %d after %d", second.Revision(), first.Revision())
	}
}

// TestPatientLeaseIsLostOnlyToAnother: that it cannot be renewed is no reason.
func TestPatientLeaseIsLostOnlyToAnother(t *testing.T) {
	s := natstest.Run(t, natstest.Listen)
	proxy := natstest.NewProxy(t, s)
	patient := leases(t, connect(t, proxy.URL()), 1)
	patient.Patient = true
	lease := acquire(t, patient, 0, "patient", natslog.MinLease)
	proxy.Mute(true)
	select {
	case <-lease.Lost():
		t.Fatal("it was lost when it could not be renewed")
	case <-time.After(3 * natslog.MinLease):
	}
	acquire(t, leases(t, s.Conn(t), 1), 0, "next", 10*time.Second)
	proxy.Mute(false)
	select {
	case <-lease.Lost():
	case <-time.After(10 * time.Second):
		t.Error("it does not notice that another holder has it")
	}
}

func TestStolenLeaseIsLost(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	lease := acquire(t, leases(t, nc, 1), 0, "robbed", 5*time.Second)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$KV.MUSTER_LEASES.partition.00", []byte("thief")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
	case <-time.After(5 * time.Second):
		t.Error("the lease does not notice that it was taken")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	held(t, leases(t, nc, 1), 0, 100*time.Millisecond) // Release leaves the thief's key alone
}
