package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/domain"
)

// TypeLines is the content type of a batch and of its answer.
const TypeLines = "application/x-ndjson"

// The bounds of a batch. It holds the lines in memory that are read and not
// answered: 1024 of them, or as few as are 8 MiB.
const (
	batchWindow = 512 // triggers under way
	batchTokens = 1024
	tokenBytes  = 8 << 10
	flushEvery  = 20 * time.Millisecond
	flushAt     = 32 << 10
)

// BatchLine is the answer to one line of a batch: a verdict, or a problem. It only
// describes.
type BatchLine struct {
	Line    int               `json:"line" doc:"number of the line in the body, from 1; 0 in a problem about the rest of the body"`
	Account string            `json:"account,omitempty"`
	Key     string            `json:"key,omitempty"`
	Trigger string            `json:"trigger,omitempty"`
	Outcome string            `json:"outcome,omitempty" enum:"applied,noop,stale,rejected,duplicate,conflict,invalid"`
	Earlier string            `json:"earlier,omitempty" doc:"of a duplicate: its outcome the first time"`
	From    string            `json:"from,omitempty"`
	To      string            `json:"to,omitempty"`
	Version uint64            `json:"version,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	AsOf    map[string]uint64 `json:"as_of,omitempty"`
	Type    string            `json:"type,omitempty" doc:"type, title, code, detail, retry and unknown: of a problem, when there is no verdict"`
	Title   string            `json:"title,omitempty"`
	Code    string            `json:"code,omitempty"`
	Detail  string            `json:"detail,omitempty"`
	Retry   bool              `json:"retry,omitempty"`
	Unknown bool              `json:"unknown,omitempty"`
}

func (a *API) batchRoute(tag string, judged []int) {
	add(a, operation{
		method: http.MethodPost, path: "/v1/triggers", id: "sendTriggers", role: auth.Connector, tag: tag, errors: judged,
		summary: "Have a batch of triggers judged: one JSON object a line in, one line out for each",
		description: "Answers come in the order of the lines, while the body is still read: read them while you send. Triggers of one account are judged in their order; " +
			"after one that got no verdict, later ones of the account are not judged (not_sent). Empty lines are passed over. A line that is no trigger is answered with outcome invalid, " +
			"and the rest goes on. A line takes 1 MiB at most, and the body as much as the server takes (--body-mib). A last line with line 0 is a problem with the body as a whole.",
		change: func(op *huma.Operation) {
			op.Middlewares = mediaTypes(TypeLines, "application/jsonl")
			op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{TypeLines: {Schema: &huma.Schema{Type: huma.TypeString}}}}
			a.schema(typeOf[BatchLine]())
			op.Responses = map[string]*huma.Response{"200": {
				Description: "One BatchLine for each line", Content: map[string]*huma.MediaType{TypeLines: {Schema: &huma.Schema{Type: huma.TypeString}}},
			}}
		},
	}, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humago.Unwrap(c)
			a.serveBatch(ctx, w, r)
		}}, nil
	})
}

// serveBatch judges a body line by line. A body that ends early ends the request's
// context; what was read of it is judged and answered all the same.
func (a *API) serveBatch(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	ctx = context.WithoutCancel(ctx)
	b := &batch{
		api: a, http: http.NewResponseController(w), out: bufio.NewWriterSize(w, flushAt),
		lines: newLineReader(r.Body, MaxBody), room: make(chan struct{}, batchTokens),
	}
	if err := b.http.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
		a.cfg.Logger.Warn("a batch is not answered before it has ended", "error", err)
	}
	w.Header().Set("Content-Type", TypeLines)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	b.failed = b.http.Flush() != nil // the client sends when it sees that it is heard
	defer context.AfterFunc(a.life, func() { _ = b.http.SetReadDeadline(time.Now()) })()
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() { b.flushing(stop) })
	err := a.cfg.Sender.SendMany(ctx, b.triggers(ctx), batchWindow, b.sent)
	close(stop)
	flusher.Wait()
	b.finish(err)
}

// batch is one body being judged. Lines wait in a queue in the order of the body;
// a line is answered when it is the first of the queue and its answer is there.
type batch struct {
	api   *API
	http  *http.ResponseController
	lines *lineReader
	room  chan struct{} // tokens of the lines that were read and are not answered
	ended *Problem      // why the body was not read to its end; set by triggers

	mu     sync.Mutex // guards what follows
	out    *bufio.Writer
	queue  []batchLine
	failed bool // the client does not read any more
}

// batchLine is a line that is not answered yet. answer is nil while it is judged.
type batchLine struct {
	number int
	tokens int // of room
	answer []byte
}

// triggers reads the body. It ends with the body, with the API, or when the client
// does not read.
func (b *batch) triggers(ctx context.Context) iter.Seq[domain.Trigger] {
	return func(yield func(domain.Trigger) bool) {
		for {
			_ = b.http.SetReadDeadline(time.Now().Add(b.api.cfg.ReadWait)) // a connection without deadlines needs none
			if b.api.life.Err() != nil {
				b.ended = NewProblem(CodeShuttingDown, "the server is shutting down; send the lines that are not answered again")
				return
			}
			line, t := b.read(ctx)
			if b.ended != nil {
				return
			}
			b.enqueue(line)
			if line.answer == nil && !yield(t) {
				return
			}
		}
	}
}

// read reads one line. One without an answer is a trigger, whose answer comes later.
func (b *batch) read(ctx context.Context) (l batchLine, t domain.Trigger) {
	text, err := b.lines.next()
	l.number, l.tokens = b.lines.line, 1+len(text)/tokenBytes
	switch {
	case errors.Is(err, io.EOF):
		b.ended = endOfBody
		return l, t
	case errors.Is(err, errLine):
		l.answer = problemLine(l.number, NewProblem(CodeTooLarge, "the line is longer than 1 MiB"))
		return l, t
	case err != nil && b.api.life.Err() != nil:
		b.ended = NewProblem(CodeShuttingDown, "the server is shutting down; send the lines that are not answered again")
		return l, t
	case errors.As(err, new(*http.MaxBytesError)):
		b.ended = NewProblem(CodeTooLarge, "the body is larger than the server takes (--body-mib); what had come was judged")
		return l, t
	case err != nil:
		b.ended = NewProblem(CodeIncomplete, "the body ended early, or paused for too long; what had come was judged")
		return l, t
	}
	if t, err = domain.ParseTrigger(text); err != nil {
		l.answer = replyLine(l.number, &bus.Reply{Verdict: domain.Refusal(&t, err), Partition: -1})
	} else if err := may(ctx, &t); err != nil {
		l.answer = problemLine(l.number, b.api.problemOf(ctx, "sendTriggers", err))
	}
	return l, t
}

// endOfBody says that the body was read to its end; it is no problem.
var endOfBody = &Problem{}

// enqueue waits for room and adds a line; it is answered at once when it can be and
// all before it are.
func (b *batch) enqueue(l batchLine) {
	for range l.tokens {
		b.room <- struct{}{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, l)
	b.drain()
}

// sent takes what became of the first trigger in the queue that is judged.
func (b *batch) sent(s bus.Sent) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.queue {
		l := &b.queue[i]
		if l.answer != nil {
			continue
		}
		switch {
		case s.Err == nil:
			l.answer = replyLine(l.number, &s.Reply)
		case errors.Is(s.Err, bus.ErrNotSent):
			l.answer = problemLine(l.number, NewProblem(CodeNotSent, fmt.Sprintf("an earlier trigger of account %q got no verdict", s.Trigger.Account)))
		default:
			l.answer = problemLine(l.number, b.api.problemOf(context.Background(), "sendTriggers", s.Err))
		}
		break
	}
	b.drain()
	return !b.failed
}

// drain answers the lines at the head of the queue.
func (b *batch) drain() {
	n := 0
	for ; n < len(b.queue) && b.queue[n].answer != nil; n++ {
		b.write(b.queue[n].answer)
		for range b.queue[n].tokens {
			<-b.room
		}
	}
	b.queue = append(b.queue[:0], b.queue[n:]...)
}

func (b *batch) write(line []byte) {
	if b.failed {
		return
	}
	b.deadline()
	if _, err := b.out.Write(line); err != nil {
		b.failed = true
	}
}

func (b *batch) deadline() { _ = b.http.SetWriteDeadline(time.Now().Add(b.api.cfg.WriteWait)) }

// flush sends what is written.
func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed || b.out.Buffered() == 0 {
		return
	}
	b.deadline()
	err := b.out.Flush()
	if err == nil {
		err = b.http.Flush()
	}
	b.failed = b.failed || err != nil
}

// flushing sends what is written now and then, until stop is closed.
func (b *batch) flushing(stop <-chan struct{}) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.flush()
		case <-stop:
			return
		}
	}
}

// finish ends the answer. One that is not whole is broken off, so that no client
// takes it for whole.
func (b *batch) finish(err error) {
	if b.ended != nil && b.ended != endOfBody {
		b.mu.Lock()
		b.write(problemLine(0, b.ended))
		b.mu.Unlock()
	}
	b.flush()
	if b.failed || err != nil {
		panic(http.ErrAbortHandler)
	}
}

// replyLine is the answer to a line that has a verdict.
func replyLine(number int, r *bus.Reply) []byte {
	line := strconv.AppendInt([]byte(`{"line":`), int64(number), 10)
	line = append(line, ',')
	at := len(line)
	line = r.AppendJSON(line)
	return append(append(line[:at], line[at+1:]...), '\n') // without the opening brace of the reply
}

// problemLine is the answer to a line that has none.
func problemLine(number int, p *Problem) []byte {
	about := *p
	about.Status = 0
	body, err := json.Marshal(&about)
	if err != nil { // texts and flags
		body = []byte(`{"code":"` + CodeInternal + `"}`)
	}
	line := strconv.AppendInt([]byte(`{"line":`), int64(number), 10)
	return append(append(append(line, ','), body[1:]...), '\n')
}
