package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// What an [*Error] is, by its code; test with errors.Is.
var (
	ErrInvalid    = errors.New("the request is invalid")           // 400, 413, 415
	ErrNotAllowed = errors.New("not allowed")                      // 401, 403
	ErrNotFound   = errors.New("not found")                        // 404
	ErrDamaged    = errors.New("the account is damaged")           // 423
	ErrRetryable  = errors.New("not now; the same may work later") // whatever says so, mostly 503
)

// Error is an answer that is not what was asked for. On the bus it is a micro
// error: the code and the detail stand in its headers, and the whole in its
// body as JSON.
type Error struct {
	Code   int    `json:"code"`   // an HTTP status
	Title  string `json:"title"`  // its kind in a few words, the same each time
	Detail string `json:"detail"` // a sentence for people
	// Retryable: sending the same again may work. A trigger without an id
	// whose outcome is not known could then be judged twice; see Unknown.
	Retryable bool `json:"retryable"`
	// Unknown: it is not known whether the trigger was stored.
	Unknown bool `json:"unknown,omitempty"`
}

// Error is the detail, with the title before it.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Title
	}
	return e.Title + ": " + e.Detail
}

// Is says whether the error is of the kind of one of this package's Err values.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRetryable:
		return e.Retryable
	case ErrInvalid:
		return e.Code == http.StatusBadRequest || e.Code == http.StatusRequestEntityTooLarge || e.Code == http.StatusUnsupportedMediaType
	case ErrNotAllowed:
		return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden
	case ErrNotFound:
		return e.Code == http.StatusNotFound
	case ErrDamaged:
		return e.Code == http.StatusLocked
	default:
		return false
	}
}

// The headers of requests and answers beside those of NATS micro.
const (
	HeaderContentType = "Content-Type"
	HeaderRetryAfter  = "Retry-After" // seconds to wait before the same is sent again; only on retryable errors
	HeaderTraceparent = "traceparent" // W3C trace context, carried into the record
	HeaderCorrelation = "Muster-Correlation-Id"
	HeaderCausation   = "Muster-Causation-Id"
)

// The content types of the bus.
const (
	TypeJSON    = "application/json"
	TypeMsgpack = "application/msgpack"
	typeProblem = "application/problem+json"
)

// retryAfter is the hint on retryable errors. The cause is a full queue or a
// change of owner: both pass quickly.
const retryAfter = time.Second

// Message is the error as an answer on the bus; its Subject is left to the caller.
func (e *Error) Message() *nats.Msg {
	body, err := json.Marshal(e)
	if err != nil { // a struct of strings, numbers and booleans
		body = nil
	}
	h := nats.Header{
		micro.ErrorHeader:     {e.Error()},
		micro.ErrorCodeHeader: {strconv.Itoa(e.Code)},
		HeaderContentType:     {typeProblem},
	}
	if e.Retryable {
		h[HeaderRetryAfter] = []string{strconv.Itoa(int(retryAfter / time.Second))}
	}
	return &nats.Msg{Header: h, Data: body}
}

// ErrorOf returns the error that an answer carries, or nil when it carries
// none. A verdict of outcome invalid is an answer, not an error of this kind,
// though NATS micro counts it as one.
func ErrorOf(m *nats.Msg) error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	e := &Error{}
	switch m.Header.Get(HeaderContentType) {
	case typeProblem:
		if json.Unmarshal(m.Data, e) == nil && e.Code != 0 {
			return e
		}
	case TypeJSON, TypeMsgpack:
		return nil
	}
	// A micro error of some other service: the headers are all there is.
	e.Code, _ = strconv.Atoi(code)
	e.Title = m.Header.Get(micro.ErrorHeader)
	e.Retryable = e.Code == http.StatusServiceUnavailable || e.Code == http.StatusTooManyRequests
	if e.Title == "" {
		e.Title = fmt.Sprintf("error %s", code)
	}
	return e
}
