package hub

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/musterhq/muster/bus/connector"
)

// Why a body was not taken, and why a peer is told to come again.
var (
	errTooLarge = errors.New("the body is too large")
	errBusy     = errors.New("too many webhooks are being served")
	errClosed   = errors.New("the server is ending")
	errSlowLog  = errors.New("the log did not take it in time")
)

// retryAfter is what peers are told to wait, in seconds.
const retryAfter = "1"

// firstRead is the room that a body of unknown length begins with, in bytes.
const firstRead = 4 << 10

// body reads the whole body, or errTooLarge as soon as that is known. The time
// that a peer may take for it is bounded, and no longer counts afterwards.
func (h *Hub) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, errTooLarge
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	bounded := rc.SetReadDeadline(time.Now().Add(h.cfg.BodyWithin)) == nil // not so in a recorded sequence
	room := int64(firstRead)
	if r.ContentLength > 0 {
		room = min(r.ContentLength, 64<<10) + 1 // what is claimed is not believed beyond that
	}
	body, err := readAll(r.Body, make([]byte, 0, room))
	if bounded && err == nil {
		err = rc.SetReadDeadline(time.Time{})
	}
	return body, err
}

// readAll appends what r yields to b, MaxBody bytes at most.
func readAll(r io.Reader, b []byte) ([]byte, error) {
	for {
		n, err := r.Read(b[len(b):min(cap(b), MaxBody+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > MaxBody:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

// refuseBody answers a request whose body was not taken.
func (h *Hub) refuseBody(w http.ResponseWriter, e *endpoint, err error) {
	switch {
	case errors.Is(err, errTooLarge):
		e.count.tooLarge.Add(1)
		w.Header().Set("Connection", "close")
		problem(w, http.StatusRequestEntityTooLarge, "too large", "a body may have "+strconv.Itoa(MaxBody)+" bytes at most")
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.count.aborted.Add(1)
		w.Header().Set("Connection", "close")
		problem(w, http.StatusRequestTimeout, "too slow", "the body did not arrive within "+h.cfg.BodyWithin.String())
	default:
		e.count.aborted.Add(1)
		problem(w, http.StatusBadRequest, "cut off", "the body did not arrive whole")
	}
}

// later tells a peer to come again, and, at most once a second, the operator why.
func (h *Hub) later(w http.ResponseWriter, e *endpoint, err error) {
	e.count.unavailable.Add(1)
	now := time.Now().UnixNano()
	if last := e.count.lastWarning.Load(); now-last > int64(time.Second) && e.count.lastWarning.CompareAndSwap(last, now) {
		h.cfg.Logger.Warn("a webhook could not be taken; its sender is told to come again", "kind", e.source.Kind, "source", e.source.Name, "error", err)
	}
	w.Header().Set("Retry-After", retryAfter)
	problem(w, http.StatusServiceUnavailable, "not now", "it could not be stored now; send it again")
}

func shake(w http.ResponseWriter, a *connector.Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values // spelled as its author did
	}
	if a.Body != "" && w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff") // the body is what the request asked for
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // the peer may have gone
}

// NotYet answers webhooks while the hub is not there yet.
func NotYet(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", retryAfter)
	problem(w, http.StatusServiceUnavailable, "not now", "the server is starting; send it again")
}

// problem answers with a problem document. Nothing of the request is in it.
func problem(w http.ResponseWriter, status int, title, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", title, status, detail})
	if err != nil { // texts and a number
		body = nil
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may have gone
}
