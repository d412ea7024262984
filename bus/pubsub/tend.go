package pubsub

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// tend tells the server, well within AckWait, that the messages that are held
// are worked on, and repeats acknowledgements that may have been lost with the
// connection. It returns when done is closed.
func (s *subscription) tend(done <-chan struct{}) {
	interval := s.cfg.AckWait / 3
	ticker := time.NewTicker(max(interval, time.Millisecond))
	defer ticker.Stop()
	status := s.nc.StatusChanged(nats.CONNECTED)
	defer s.nc.RemoveStatusListener(status)
	for {
		select {
		case <-done:
			return
		case <-status:
			s.reconnected()
		case now := <-ticker.C:
			for _, reply := range s.board.silent(now.Add(-interval), now) {
				s.send(reply, ackWorking)
			}
		}
	}
}

// reconnected repeats the latest acknowledgements, if the consumer is the one
// that they were meant for. When nobody else reads it and the server has more
// under way than is here, deliveries were lost: reading begins anew.
func (s *subscription) reconnected() {
	s.suspicion.arise(s.cfg.AckWait)
	ctx, cancel := s.bound(s.stopCtx)
	defer cancel()
	_, err := s.look(ctx)
	if gone(err) {
		s.board.forgetAcks()
	}
	if err != nil {
		s.log.Info("acknowledgements are not repeated", "error", err)
		return
	}
	for _, reply := range s.board.lastAcks() {
		s.send(reply, ackDone)
	}
	if !s.solo {
		return
	}
	if info, err := s.look(ctx); err == nil && info.NumAckPending > s.board.count() {
		select {
		case s.reread <- struct{}{}:
		default:
		}
	}
}

// suspicion stands for a while after the connection was lost or reading was
// begun anew: what was acknowledged a moment before and is delivered as if
// for the first time is then a repetition, and at other times somebody's wish.
type suspicion struct {
	mu         sync.Mutex
	until      time.Time
	reconnects uint64
}

func (s *suspicion) arise(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

// stands also notices a new connection before its listener does.
func (s *suspicion) stands(nc *nats.Conn, d time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := nc.Stats().Reconnects; n != s.reconnects {
		s.reconnects, s.until = n, now.Add(d)
	}
	return now.Before(s.until)
}
