package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
)

// ErrNotParked is wrapped when there is no parked message of an id.
var ErrNotParked = errors.New("no message is parked under this id")

// Parked is a message that could not be judged.
type Parked struct {
	ID      uint64      // names it; later ones have higher ids
	Account string      // "" when its subject names none
	Subject string      // it was published to
	Reason  string      // why it could not be judged
	Origin  string      // the id that its trigger has if its publisher gave none
	Stored  time.Time   // when it was first published
	At      time.Time   // when it was parked
	Header  nats.Header // as it was published
	Body    []byte      // as it was published
}

// Page is a page of parked messages.
type Page struct {
	Parked []Parked // newest first
	Next   uint64   // where the next page begins; 0 = there is none
	Total  uint64   // parked in all
}

// List returns parked messages, newest first, with ids below before (0: all), at
// most limit.
func (s *Store) List(ctx context.Context, before uint64, limit int) (Page, error) {
	info, err := s.park.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return Page{}, fmt.Errorf("list parked messages: %w", err)
	}
	st := info.State
	page := Page{Total: st.Msgs}
	if st.Msgs == 0 {
		return page, nil
	}
	gone := make(map[uint64]struct{}, len(st.Deleted))
	for _, seq := range st.Deleted {
		gone[seq] = struct{}{}
	}
	seq := st.LastSeq
	if before != 0 && before <= seq {
		seq = before - 1
	}
	for ; seq >= st.FirstSeq && seq > 0; seq-- {
		if _, ok := gone[seq]; ok {
			continue
		}
		if len(page.Parked) == limit {
			page.Next = seq + 1
			break
		}
		p, err := s.parked(ctx, seq)
		if errors.Is(err, ErrNotParked) {
			continue // dropped meanwhile
		}
		if err != nil {
			return Page{}, fmt.Errorf("list parked messages: %w", err)
		}
		page.Parked = append(page.Parked, p)
	}
	return page, nil
}

// parked reads one parked message.
func (s *Store) parked(ctx context.Context, id uint64) (Parked, error) {
	raw, err := s.park.GetMsg(ctx, id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Parked{}, fmt.Errorf("%w: %d", ErrNotParked, id)
	}
	if err != nil {
		return Parked{}, fmt.Errorf("read parked message %d: %w", id, err)
	}
	return parkedOf(raw), nil
}

func parkedOf(raw *jetstream.RawStreamMsg) Parked {
	p := Parked{
		ID: raw.Sequence, Subject: raw.Header.Get(headerSubject), Reason: raw.Header.Get(headerReason), Origin: raw.Header.Get(headerFirst),
		At: raw.Time.UTC(), Header: own(raw.Header), Body: raw.Data,
	}
	if account, err := bus.AccountOf(p.Subject); err == nil {
		p.Account = account
	}
	if o, err := parseOrigin(p.Origin); err == nil {
		p.Stored = o.storedAt()
	}
	return p
}

// Retry puts a parked message into the inbox again, behind what waits there. Its
// trigger keeps the time at which it was first published, and the id that was
// made of it. The error may wrap ErrNotParked.
func (s *Store) Retry(ctx context.Context, id uint64) error {
	raw, err := s.park.GetMsg(ctx, id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("retry: %w: %d", ErrNotParked, id)
	}
	if err != nil {
		return fmt.Errorf("retry parked message %d: %w", id, err)
	}
	return s.retry(ctx, raw)
}

func (s *Store) retry(ctx context.Context, raw *jetstream.RawStreamMsg) error {
	m := nats.Msg{Subject: raw.Header.Get(headerSubject), Data: raw.Data, Header: republished(raw.Header)}
	once := "retry-" + strconv.FormatUint(raw.Sequence, 10) + "@" + strconv.FormatInt(raw.Time.UnixNano(), 10)
	if _, err := s.js.PublishMsg(ctx, &m, jetstream.WithMsgID(once)); err != nil {
		return fmt.Errorf("retry parked message %d: %w", raw.Sequence, refusal(err))
	}
	if err := s.park.DeleteMsg(ctx, raw.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("retry parked message %d: it is in the inbox, but still parked, too: %w", raw.Sequence, err)
	}
	return nil
}

// Drop forgets a parked message. The error may wrap ErrNotParked.
func (s *Store) Drop(ctx context.Context, id uint64) error {
	if _, err := s.parked(ctx, id); err != nil { // a delete of what is not there is an error without a name
		return fmt.Errorf("drop: %w", err)
	}
	if err := s.park.DeleteMsg(ctx, id); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("drop parked message %d: %w", id, err)
	}
	return nil
}

// RetryAll is Retry for parked messages with ids up to upTo (0: all that are
// parked now), oldest first, at most limit. It returns how many those were, and
// the id up to which it goes on when it is called again; 0 = none is left.
func (s *Store) RetryAll(ctx context.Context, upTo uint64, limit int) (done int, again uint64, err error) {
	info, err := s.park.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("retry parked messages: %w", err)
	}
	if upTo == 0 {
		upTo = info.State.LastSeq
	}
	for seq := info.State.FirstSeq; seq <= upTo; seq++ {
		raw, err := s.park.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(bus.ParkSubjects)) // the next one from seq on
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return done, 0, nil
		}
		if err != nil {
			return done, upTo, fmt.Errorf("retry parked messages: %w", err)
		}
		if raw.Sequence > upTo {
			break
		}
		if done == limit {
			return done, upTo, nil
		}
		if err := s.retry(ctx, raw); err != nil {
			return done, upTo, err
		}
		done++
		seq = raw.Sequence
	}
	return done, 0, nil
}

// DropAll forgets all parked messages and returns how many there were.
func (s *Store) DropAll(ctx context.Context) (int, error) {
	info, err := s.park.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("drop parked messages: %w", err)
	}
	if info.State.Msgs == 0 {
		return 0, nil
	}
	if err := s.park.Purge(ctx, jetstream.WithPurgeSequence(info.State.LastSeq+1)); err != nil {
		return 0, fmt.Errorf("drop parked messages: %w", err)
	}
	return int(info.State.Msgs), nil
}
