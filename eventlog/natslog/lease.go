package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	leaseBucket = "MUSTER_LEASES"
	// MinLease is the shortest life of a lease that the server can keep.
	MinLease = time.Second
)

// ErrHeld is wrapped when another owner holds a lease.
var ErrHeld = errors.New("another instance holds the partition")

// Leases hands out one lease per partition, so that two instances do not fight
// over it. Nothing rests on it: two holders at a time would only meet in
// conflicts, since every append carries its guard. Use OpenLeases.
type Leases struct {
	// Patient leases are lost only to another holder, not because they could
	// not be renewed: for the process that runs the server, where nobody else
	// can write either when it cannot. Set it before Acquire.
	Patient bool

	js jetstream.JetStream
	kv jetstream.KeyValue
}

// OpenLeases opens the bucket of leases, or creates it with this many replicas (0: 1).
func OpenLeases(ctx context.Context, nc *nats.Conn, replicas int) (*Leases, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open leases: %w", err)
	}
	kv, err := js.KeyValue(ctx, leaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: leaseBucket, Description: "Muster: who writes which partition", History: 1,
			LimitMarkerTTL: MinLease, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open leases: %w", err)
	}
	return &Leases{js: js, kv: kv}, nil
}

// Lease is a partition held by this process. It renews itself until it is
// released or lost; Release must be called in either case.
type Lease struct {
	leases   *Leases
	key      string
	owner    string
	ttl      time.Duration
	acquired uint64 // the revision that took it
	current  uint64 // the revision of the last renewal; used by the goroutine, then by Release
	lost     chan struct{}
	stop     context.CancelFunc
	done     chan struct{}
	once     sync.Once
	failed   error
}

// Acquire takes the partition's lease for owner, which names an instance over
// its restarts: what an earlier run of the same owner left is taken over at
// once. Held by another, it waits until that one ends or expires; when ctx ends
// first, the error is ErrHeld. Unless it is renewed, a lease ends after ttl.
func (s *Leases) Acquire(ctx context.Context, partition int, owner string, ttl time.Duration) (*Lease, error) {
	if ttl < MinLease {
		return nil, fmt.Errorf("acquire lease: it must last %v or longer, not %v", MinLease, ttl)
	}
	key := fmt.Sprintf("partition.%02d", partition)
	tick := time.NewTicker(min(ttl/4, 500*time.Millisecond))
	defer tick.Stop()
	var held error
	for {
		begin := time.Now()
		revision, err := s.take(ctx, key, owner, ttl)
		switch {
		case err == nil:
			return s.start(key, owner, ttl, revision, begin), nil
		case errors.Is(err, ErrHeld):
			held = err
		case held == nil || ctx.Err() == nil:
			return nil, fmt.Errorf("acquire lease of partition %d: %w", partition, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("acquire lease of partition %d: %w: %w", partition, held, context.Cause(ctx))
		}
	}
}

// take tries once.
func (s *Leases) take(ctx context.Context, key, owner string, ttl time.Duration) (uint64, error) {
	revision, err := s.kv.Create(ctx, key, []byte(owner), jetstream.KeyTTL(ttl))
	if err == nil || !lostRace(err) {
		return revision, err
	}
	held, err := s.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // it ended meanwhile
		return 0, ErrHeld
	case err != nil:
		return 0, err
	case string(held.Value()) != owner:
		return 0, fmt.Errorf("%w: %s", ErrHeld, held.Value())
	}
	if revision, err = s.put(ctx, key, owner, ttl, held.Revision()); lostRace(err) {
		return 0, ErrHeld
	}
	return revision, err
}

// put writes the key with a time to live, which Update of the key-value client
// would drop, if its revision is the expected one.
func (s *Leases) put(ctx context.Context, key, owner string, ttl time.Duration, expect uint64) (uint64, error) {
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{
		Subject: "$KV." + leaseBucket + "." + key,
		Header:  nats.Header{guardHeader: {strconv.FormatUint(expect, 10)}, "Nats-TTL": {ttl.String()}},
		Data:    []byte(owner),
	})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// lostRace says that somebody else wrote the key.
func lostRace(err error) bool {
	var refusal jetstream.JetStreamError
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	if !errors.As(err, &refusal) || refusal.APIError() == nil {
		return false
	}
	code := int(refusal.APIError().ErrorCode)
	return code == codeWrongLastSequence || code == codeWrongLastInProcess
}

func (s *Leases) start(key, owner string, ttl time.Duration, revision uint64, begin time.Time) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{
		leases: s, key: key, owner: owner, ttl: ttl, acquired: revision, current: revision,
		lost: make(chan struct{}), stop: stop, done: make(chan struct{}),
	}
	go l.renew(ctx, begin)
	return l
}

// renew keeps the lease until ctx ends. It counts from before each renewal was
// sent, so that it gives up earlier than the server does.
func (l *Lease) renew(ctx context.Context, good time.Time) {
	defer close(l.done)
	tick := time.NewTicker(l.ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begin := time.Now()
		left := l.ttl - begin.Sub(good)
		if l.leases.Patient {
			left = l.ttl
		}
		try, cancel := context.WithTimeout(ctx, max(min(left, l.ttl/2), time.Millisecond))
		revision, err := l.leases.put(try, l.key, l.owner, l.ttl, l.current)
		cancel()
		switch {
		case err == nil:
			l.current, good = revision, begin
		case ctx.Err() != nil:
			return
		case lostRace(err) && !l.lateRenewal(ctx), !l.leases.Patient && time.Since(good) >= l.ttl*3/4:
			close(l.lost)
			return
		}
	}
}

// lateRenewal says whether the key was written by a renewal of this lease
// whose answer was lost.
func (l *Lease) lateRenewal(ctx context.Context) bool {
	try, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	e, err := l.leases.kv.Get(try, l.key)
	if err != nil || string(e.Value()) != l.owner || e.Revision() <= l.current {
		return false
	}
	l.current = e.Revision()
	return true
}

// Revision is the number that took the lease: a later holder has a higher one.
func (l *Lease) Revision() uint64 { return l.acquired }

// Lost is closed when another has taken the lease, or when it could not be
// renewed for so long that another may have.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release stops the renewing and, if the lease is still ours, ends it. A
// second Release does nothing.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() {
		l.stop()
		<-l.done
		select {
		case <-l.lost:
			return
		default:
		}
		if err := l.leases.kv.Delete(ctx, l.key, jetstream.LastRevision(l.current)); err != nil && !lostRace(err) {
			l.failed = fmt.Errorf("release lease: %w", err)
		}
	})
	return l.failed
}
