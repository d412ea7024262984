package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
)

// streamInput says which events are wanted. Of several values of one filter any
// fits; all filters must fit.
type streamInput struct {
	LastEventID string   `header:"Last-Event-ID" doc:"id of the last event that was got: the stream goes on behind it, from the history" example:"0:12,1:7"`
	After       string   `query:"after" doc:"the same as Last-Event-ID, for a client that cannot set headers; absent both: from now on"`
	Account     []string `query:"account,explode" doc:"of these accounts"`
	Trigger     []string `query:"trigger,explode" doc:"of these triggers" example:"connection_lost"`
	Outcome     []string `query:"outcome,explode" enum:"applied,noop,stale,rejected" doc:"with these outcomes"`
	State       []string `query:"state,explode" doc:"that lead to these states" example:"LOGGED_OUT"`
	Source      []string `query:"source,explode" doc:"of these sources"`
}

// wants says whether an event passes the filters.
func (in *streamInput) wants(e *live.Event) bool {
	if !oneOf(in.Account, e.Account) {
		return false
	}
	if len(in.Trigger)+len(in.Outcome)+len(in.State)+len(in.Source) == 0 {
		return true
	}
	f := e.Facts()
	return oneOf(in.Trigger, f.Trigger) && oneOf(in.Outcome, f.Outcome) && oneOf(in.State, f.To) && oneOf(in.Source, f.Source)
}

func oneOf(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// from is the position behind which the stream begins.
func (in *streamInput) from() (live.Position, error) {
	where, text := "header.Last-Event-ID", in.LastEventID
	if text == "" {
		where, text = "query.after", in.After
	}
	p, err := live.ParsePosition(text)
	if err != nil {
		return nil, fault(where, err.Error())
	}
	return p, nil
}

// StreamEnd is the data of a stream's last event, "end".
type StreamEnd struct {
	Code   string `json:"code" doc:"shutting_down, too_slow or stream_failed"`
	Detail string `json:"detail"`
	Retry  bool   `json:"retry" doc:"go on from the id of this event"`
}

func (a *API) streamRoutes() {
	add(a, operation{
		method: http.MethodGet, path: "/v1/stream", id: "stream", role: auth.Reader, tag: "stream",
		summary: "Every judged event as a server-sent event, live and from any position of the history",
		description: "An event's name is event, its data a StreamEvent. Its id is a position, partition:sequence for each partition; sent back as Last-Event-ID the stream goes on behind it " +
			"without a gap and without an event twice, also after a restart of the server. Events of one account come in their order. On a quiet stream a comment comes every 15 s, with the " +
			"position as id. A reader that is too slow, and everybody when the server shuts down, gets a last event named end, whose data is a StreamEnd, and goes on from its id. " +
			"A reader that reads nothing at all is cut off.",
		change: func(op *huma.Operation) {
			r := a.huma.OpenAPI().Components.Schemas
			event := huma.SchemaFromType(r, typeOf[bus.PlacedEvent]())
			r.Map()["StreamEvent"] = event
			end := a.schema(typeOf[StreamEnd]())
			op.Responses = map[string]*huma.Response{"200": {
				Description: "Events; their data is a StreamEvent, or " + end.Ref + " in the last one",
				Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
			}}
		},
	}, a.stream)
}

// Streams is the number of streams that are open.
func (a *API) Streams() int {
	if a.live == nil {
		return 0
	}
	return a.live.Readers()
}

// stream checks the request; what follows is written by serveStream.
func (a *API) stream(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
	from, err := in.from()
	if err != nil {
		return nil, err
	}
	if a.live == nil {
		return nil, a.problemOf(ctx, "stream", errors.New("there is no live stream"))
	}
	reader, err := a.live.Read(ctx, from)
	switch {
	case err == nil:
	case errors.Is(err, live.ErrPosition):
		return nil, invalid(err.Error())
	case errors.Is(err, live.ErrTooMany):
		return nil, NewProblem(CodeTooManyReader, err.Error())
	case errors.Is(err, live.ErrClosed):
		return nil, NewProblem(CodeShuttingDown, err.Error())
	default:
		return nil, a.problemOf(ctx, "stream", err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer reader.Close()
		_, w := humago.Unwrap(c)
		s := &sse{w: w, http: http.NewResponseController(w), wait: a.cfg.WriteWait, life: a.life}
		defer context.AfterFunc(a.life, func() { _ = s.http.SetWriteDeadline(time.Now().Add(lastMoment)) })()
		if err := a.serveStream(ctx, in, reader, s); err != nil {
			panic(http.ErrAbortHandler) // the client has gone, or reads nothing
		}
	}}, nil
}

// serveStream writes events until the reader ends or the client is gone. The
// error is that of a write.
func (a *API) serveStream(ctx context.Context, in *streamInput, reader *live.Reader, s *sse) error {
	s.begin(reader.Position())
	if err := s.send(); err != nil {
		return err
	}
	for {
		events, err := reader.Next(ctx, a.cfg.KeepAlive)
		if err != nil {
			return s.end(reader.Position(), endOf(err), ctx.Err())
		}
		if len(events) == 0 {
			s.alive(reader.Position())
		}
		at := reader.Position()
		for _, e := range events {
			if in.wants(e) {
				at[e.Partition] = e.Seq
				s.event(at, e.JSON())
			}
		}
		if err := s.send(); err != nil {
			return err
		}
	}
}

// endOf says to a reader why there is no more.
func endOf(err error) *Problem {
	switch {
	case errors.Is(err, live.ErrTooSlow):
		return NewProblem(CodeTooSlow, err.Error())
	case errors.Is(err, live.ErrClosed):
		return NewProblem(CodeShuttingDown, err.Error())
	}
	return NewProblem(CodeStreamFailed, live.ErrFailed.Error())
}

// lastMoment is how long a client has to take what is sent when the API closes.
const lastMoment = 2 * time.Second

// sse writes server-sent events. It gathers them until send.
type sse struct {
	w    http.ResponseWriter
	http *http.ResponseController
	wait time.Duration // how long a write may take
	life context.Context
	buf  []byte
}

// begin writes the head, and where the stream begins.
func (s *sse) begin(at live.Position) {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for proxies that gather answers
	s.w.WriteHeader(http.StatusOK)
	s.buf = append(append(s.buf, "retry: 2000\n: from here\nid: "...), at.String()...)
	s.buf = append(s.buf, "\n\n"...)
}

// alive is a sign of life. The id is kept by the client, though it is no event.
func (s *sse) alive(at live.Position) {
	s.buf = append(append(s.buf, ": keep-alive\nid: "...), at.String()...)
	s.buf = append(s.buf, "\n\n"...)
}

// event adds one event.
func (s *sse) event(at live.Position, data []byte) {
	s.named("event", at, data)
}

func (s *sse) named(name string, at live.Position, data []byte) {
	s.buf = append(append(s.buf, "event: "...), name...)
	s.buf = append(append(s.buf, "\nid: "...), at.String()...)
	s.buf = append(append(s.buf, "\ndata: "...), data...) // JSON on one line
	s.buf = append(s.buf, "\n\n"...)
}

// end writes the last event. Without a client there is none.
func (s *sse) end(at live.Position, why *Problem, gone error) error {
	if gone != nil {
		return gone
	}
	data, err := json.Marshal(StreamEnd{Code: why.Code, Detail: why.Detail, Retry: true})
	if err != nil { // two texts and a flag
		return err
	}
	s.named("end", at, data)
	return s.send()
}

// send writes what was gathered. A client that does not take it in time is given up.
func (s *sse) send() error {
	if len(s.buf) == 0 {
		return nil
	}
	wait := s.wait
	if s.life.Err() != nil {
		wait = min(wait, lastMoment)
	}
	if err := s.http.SetWriteDeadline(time.Now().Add(wait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err == nil {
		err = s.http.Flush()
	}
	return err
}
