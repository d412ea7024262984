package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// ErrSuperseded says that another process writes the journal.
var ErrSuperseded = errors.New("another process makes the alerts")

// journal keeps the changes in the order in which they were decided.
type journal interface {
	// load returns the fold of all that was stored.
	load(ctx context.Context) (*state, error)
	// append returns when the changes are stored; until then it tries. Its error is
	// ErrSuperseded or ctx's.
	append(ctx context.Context, changes []change, st *state) error
}

const (
	journalStream  = "MUSTER_ALERTS"
	journalSubject = "muster.alerts"
	recordVersion  = 1
	recordBytes    = 256 << 10 // a record is not made longer by one more change
	compactAfter   = 4000      // records
	compactBytes   = 16 << 20
)

// record is one message of the journal.
type record struct {
	Version int               `json:"v"`
	Writer  string            `json:"w"` // with N, tells every record from every other
	N       uint64            `json:"n"`
	Part    *part             `json:"s,omitempty"` // of a snapshot, which stands for all before it
	Changes []json.RawMessage `json:"c"`
}

type part struct{ I, Of int }

// natsJournal is the journal in a JetStream stream.
type natsJournal struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	writer string
	n      uint64
	last   uint64 // sequence of the last record
	count  int    // records and bytes since the last snapshot
	size   int
}

var _ journal = (*natsJournal)(nil)

func openJournal(ctx context.Context, nc *nats.Conn, replicas int) (*natsJournal, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the alerts' journal: %w", err)
	}
	s, err := js.Stream(ctx, journalStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: journalStream, Description: "Muster: alerts, what was decided and what became of them", Subjects: []string{journalSubject},
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1), DenyDelete: true,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the alerts' journal: %w", err)
	}
	return &natsJournal{js: js, stream: s, writer: nuid.Next()}, nil
}

func (j *natsJournal) load(ctx context.Context) (*state, error) {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the alerts' journal: %w", err)
	}
	j.last, j.count, j.size = info.State.LastSeq, 0, 0
	l := loader{st: newState()}
	if info.State.Msgs == 0 {
		return l.st, nil
	}
	c, err := j.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, fmt.Errorf("load the alerts' journal: %w", err)
	}
	msgs, err := c.Messages()
	if err != nil {
		return nil, fmt.Errorf("load the alerts' journal: %w", err)
	}
	defer msgs.Stop()
	defer context.AfterFunc(ctx, msgs.Stop)()
	for {
		m, err := msgs.Next()
		if err != nil {
			return nil, fmt.Errorf("load the alerts' journal: %w", errors.Join(err, context.Cause(ctx)))
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("load the alerts' journal: %w", err)
		}
		if err := l.record(m.Data()); err != nil {
			return nil, fmt.Errorf("load the alerts' journal, record %d: %w", meta.Sequence.Stream, err)
		}
		j.count, j.size = j.count+1, j.size+len(m.Data())
		if meta.Sequence.Stream >= info.State.LastSeq {
			return l.st, nil
		}
	}
}

// loader folds records. A snapshot counts only when all its parts are there.
type loader struct {
	st   *state
	next *state // of a snapshot that has begun
	want part
}

func (l *loader) record(data []byte) error {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if r.Version != recordVersion {
		return fmt.Errorf("it has version %d, and this Muster knows %d: a newer one wrote it", r.Version, recordVersion)
	}
	st := l.st
	switch {
	case r.Part == nil:
		l.next = nil
	case r.Part.I == 0:
		l.next, l.want = newState(), part{0, r.Part.Of}
		st = l.next
	case l.next == nil || *r.Part != l.want:
		return nil // the rest of one whose beginning is not there
	default:
		st = l.next
	}
	for _, raw := range r.Changes {
		var c change
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		st.apply(&c)
	}
	if l.next != nil {
		if l.want.I++; l.want.I == l.want.Of {
			l.st, l.next = l.next, nil
		}
	}
	return nil
}

func (j *natsJournal) append(ctx context.Context, changes []change, st *state) error {
	groups, err := split(changes)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := j.put(ctx, g, nil); err != nil {
			return err
		}
	}
	if j.count < compactAfter && j.size < compactBytes {
		return nil
	}
	return j.compact(ctx, st)
}

// compact writes all of the state and forgets what was before.
func (j *natsJournal) compact(ctx context.Context, st *state) error {
	groups, err := split(st.dump())
	if err != nil {
		return err
	}
	first := j.last + 1
	for i, g := range groups {
		if err := j.put(ctx, g, &part{i, len(groups)}); err != nil {
			return err
		}
	}
	j.count, j.size = 0, 0
	if err := j.stream.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	} // a purge that failed is made up for by the next one
	return nil
}

// split encodes changes into groups of a bounded size.
func split(changes []change) (groups [][]json.RawMessage, err error) {
	var group []json.RawMessage
	size := 0
	for i := range changes {
		raw, err := json.Marshal(&changes[i])
		if err != nil {
			return nil, fmt.Errorf("encode a change: %w", err)
		}
		if size+len(raw) > recordBytes && len(group) > 0 {
			groups, group, size = append(groups, group), nil, 0
		}
		group, size = append(group, raw), size+len(raw)
	}
	return append(groups, group), nil
}

// put stores one record, trying until it is known to be stored.
func (j *natsJournal) put(ctx context.Context, changes []json.RawMessage, p *part) error {
	j.n++
	data, err := json.Marshal(record{Version: recordVersion, Writer: j.writer, N: j.n, Part: p, Changes: changes})
	if err != nil {
		return fmt.Errorf("encode a record: %w", err)
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		stored, err := j.try(try, data)
		cancel()
		switch {
		case stored:
			j.last, j.count, j.size = j.last+1, j.count+1, j.size+len(data)
			return nil
		case errors.Is(err, ErrSuperseded):
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("write the alerts' journal: %w: %w", context.Cause(ctx), err)
		}
	}
}

// try publishes once. When that is refused or nothing comes back, what stands at
// the record's place tells whether it is stored.
func (j *natsJournal) try(ctx context.Context, data []byte) (stored bool, err error) {
	_, err = j.js.Publish(ctx, journalSubject, data, jetstream.WithExpectLastSequence(j.last), jetstream.WithRetryAttempts(1))
	if err == nil {
		return true, nil
	}
	there, getErr := j.stream.GetMsg(ctx, j.last+1)
	var refusal *jetstream.APIError
	wrongPlace := errors.As(err, &refusal) && refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
	switch {
	case errors.Is(getErr, jetstream.ErrMsgNotFound) && wrongPlace:
		return false, ErrSuperseded // the journal is shorter than it was: the server has lost its end
	case getErr != nil:
		return false, err
	case bytes.Equal(there.Data, data):
		return true, nil
	}
	return false, ErrSuperseded
}
