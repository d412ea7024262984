package natslog

import (
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// errLost is the cause of an append that was in flight when its connection broke.
var errLost = errors.New("the connection was lost")

// errClosed is the cause of an append on a closed log.
var errClosed = errors.New("the log is closed")

// connWatch tells appends and readers that the connection broke. It owns one
// goroutine, which ends with close.
type connWatch struct {
	nc     *nats.Conn
	status chan nats.Status
	done   chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	broken chan struct{} // closed at the next break, then replaced
	closed bool
}

func watchConn(nc *nats.Conn) *connWatch {
	w := &connWatch{
		nc: nc, broken: make(chan struct{}), done: make(chan struct{}),
		status: nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED),
	}
	go w.run()
	return w
}

func (w *connWatch) run() {
	defer close(w.done)
	for range w.status {
		w.mu.Lock()
		if !w.closed {
			close(w.broken)
			w.broken = make(chan struct{})
		}
		w.mu.Unlock()
	}
}

// breaks returns a channel that is closed when the connection breaks, or an
// error when it is broken now.
func (w *connWatch) breaks() (<-chan struct{}, error) {
	w.mu.Lock()
	broken, closed := w.broken, w.closed
	w.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case !w.nc.IsConnected(): // asked after broken was taken, so no break is missed
		return nil, errLost
	}
	return broken, nil
}

// close wakes everybody who waits and ends the goroutine. It reports whether
// it was the first to do so.
func (w *connWatch) close() bool {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	if first {
		close(w.broken)
	}
	w.mu.Unlock()
	if first {
		w.nc.RemoveStatusListener(w.status)
	}
	<-w.done
	return first
}
