package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream = "MUSTER_OP"
	prefix = "muster.op."
)

// Log is the log of operators' actions. Use Open; it may be used from many
// goroutines.
type Log struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

// Open opens the log, or creates it with this many replicas (0: 1). The
// connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, replicas int) (*Log, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the operators' log: %w", err)
	}
	s, err := js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Description: "Muster: what operators did", Subjects: []string{prefix + ">"},
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1), DenyDelete: true, DenyPurge: true,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the operators' log: %w", err)
	}
	return &Log{js, s}, nil
}

// Append stores an action and returns it as it was stored, with its sequence.
// An action that breaks the rules is an ErrInvalid. The same action may be
// appended again when the outcome is not known.
func (l *Log) Append(ctx context.Context, a Action) (Action, uint64, error) {
	body, err := a.complete(time.Now())
	if err != nil {
		return a, 0, err
	}
	ack, err := l.js.Publish(ctx, prefix+string(a.Action), body, jetstream.WithMsgID(a.ID))
	if err != nil {
		return a, 0, fmt.Errorf("append action %s: %w", a.ID, err)
	}
	return a, ack.Sequence, nil
}

// Last is the sequence of the last action; 0 = there is none.
func (l *Log) Last(ctx context.Context) (uint64, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the operators' log: %w", err)
	}
	return info.State.LastSeq, nil
}

// Entry is one record of the log.
type Entry struct {
	Seq    uint64
	Action Action
	Err    error // it cannot be read; Action is then empty
}

// Follow yields the log's records behind a sequence, in order, and goes on with
// new ones until ctx ends, which ends it without an error. It survives a lost
// connection by itself.
func (l *Log) Follow(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		})
		if err != nil {
			yieldUnlessDone(ctx, yield, err)
			return
		}
		msgs, err := c.Messages()
		if err != nil {
			yieldUnlessDone(ctx, yield, err)
			return
		}
		defer msgs.Stop()
		defer context.AfterFunc(ctx, msgs.Stop)()
		for {
			m, err := msgs.Next()
			if err != nil {
				yieldUnlessDone(ctx, yield, err)
				return
			}
			if !yield(entryOf(m)) {
				return
			}
		}
	}
}

func yieldUnlessDone(ctx context.Context, yield func(Entry, error) bool, err error) {
	if ctx.Err() == nil {
		yield(Entry{}, fmt.Errorf("follow the operators' log: %w", err))
	}
}

func entryOf(m jetstream.Msg) (e Entry, _ error) {
	meta, err := m.Metadata()
	if err != nil {
		return e, fmt.Errorf("follow the operators' log: %w", err)
	}
	e.Seq = meta.Sequence.Stream
	if err := json.Unmarshal(m.Data(), &e.Action); err != nil {
		return Entry{Seq: e.Seq, Err: fmt.Errorf("read action %d: %w", e.Seq, err)}, nil
	}
	return e, nil
}
