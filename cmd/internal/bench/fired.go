package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// firing is one deadline that has fired, as the log tells it: unix ns.
type firing struct{ at, judged, stored int64 }

// firings are those of each account, in the order of the log.
type firings map[string][]firing

// firedOf reads them from the server's streams.
func firedOf(ctx context.Context, s *running, accounts int) (firings, error) {
	ctx, cancel := context.WithTimeout(ctx, firedWithin)
	defer cancel()
	nc, err := s.app.Connect("bench reader")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	f := make(firings, accounts)
	list := js.StreamNames(ctx, jetstream.WithStreamListSubject("muster.ev.>"))
	for name := range list.Name() {
		if _, err := consumeStream(ctx, js, name, f.add); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	if len(f) != accounts {
		return nil, fmt.Errorf("deadlines of %d accounts are in the log, want %d", len(f), accounts)
	}
	return f, nil
}

// add takes one message of a stream.
func (f firings) add(m jetstream.Msg) error {
	e, err := codec.Decode(m.Data())
	if err != nil {
		return err
	}
	if e.Trigger != due || e.Source != domain.SourceMuster {
		return nil
	}
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	f[string(e.Account)] = append(f[string(e.Account)], firing{e.At, e.Recorded, meta.Timestamp.UnixNano()})
	return nil
}

// times is an error unless every account's deadlines have fired n times.
func (f firings) times(n int) error {
	for id, all := range f {
		if len(all) != n {
			return fmt.Errorf("the log has %d %s of %s, want %d", len(all), due, id, n)
		}
	}
	return nil
}

// lateness is how late the n-th of each account was judged and stored.
func (f firings) lateness(n int) (judged, stored Lateness, err error) {
	if err := f.times(n); err != nil {
		return judged, stored, err
	}
	var j, s []time.Duration
	for _, all := range f {
		last := all[n-1]
		j, s = append(j, time.Duration(last.judged-last.at)), append(s, time.Duration(last.stored-last.at))
	}
	return latenessOf(j), latenessOf(s), nil
}

func latenessOf(all []time.Duration) Lateness {
	slices.Sort(all)
	return Lateness{P50: quantile(all, 0.50), P99: quantile(all, 0.99), Max: quantile(all, 1)}
}

func (l Lateness) row() string {
	return fmt.Sprintf("p50 %6.1f ms  p99 %6.1f ms  max %6.1f ms late", l.P50, l.P99, l.Max)
}
