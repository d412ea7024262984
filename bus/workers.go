package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// What a worker says of itself is sent on muster.worker.<word>.<name>, where the
// name is one token, written by [eventlog.Token].
const (
	workerPrefix = "muster.worker."

	helloWord   = "hello"
	beatWord    = "beat"
	goodbyeWord = "goodbye"

	// WorkerSubjects is the wildcard of all that workers say.
	WorkerSubjects = workerPrefix + "*.*"
)

// HelloSubject is where a worker asks to be counted on: a request, answered with
// a [WorkerWelcome].
func HelloSubject(worker string) string { return workerSubject(helloWord, worker) }

// BeatSubject is where a worker says that it lives. Nothing comes back, but when
// the beat names a reply subject and there is something that the worker must
// know: then a [WorkerWelcome].
func BeatSubject(worker string) string { return workerSubject(beatWord, worker) }

// GoodbyeSubject is where a worker says that it ends: a request, answered with
// an empty message when it was heard.
func GoodbyeSubject(worker string) string { return workerSubject(goodbyeWord, worker) }

func workerSubject(word, worker string) string {
	return workerPrefix + word + "." + eventlog.Token(worker)
}

// WorkerMessage is the body, as JSON, of everything a worker says of itself.
// Fields that are not known are passed over: a worker may be newer than the
// server.
type WorkerMessage struct {
	// Worker is its name, the Source of the triggers it publishes: text of 1
	// to 128 bytes without control characters.
	Worker string `json:"worker"`
	// Boot names this run of its process: the same as long as what it holds in
	// memory is, another one after every start. Text like Worker.
	Boot string `json:"boot"`
	// EveryMS, in a beat, is the promise that the next one comes within so many
	// milliseconds; 0 = what the server told.
	EveryMS int64 `json:"every_ms,omitempty"`
	// Again, in a hello, says that this run has been welcomed before: it only
	// wants to be sure that it is known.
	Again bool `json:"again,omitempty"`
}

// WorkerWelcome is what a worker is told, as JSON.
type WorkerWelcome struct {
	BeatMS int64 `json:"beat_ms"` // send a beat every so many milliseconds
	// Lapsed says that the worker was taken for dead: its accounts were marked
	// and perhaps moved. It should report what each of them really is.
	Lapsed bool `json:"lapsed,omitempty"`
}

// Beat is the interval between two beats.
func (w WorkerWelcome) Beat() time.Duration { return time.Duration(w.BeatMS) * time.Millisecond }

// The words of a worker, as ParseWorkerMessage returns them.
const (
	WorkerHello   = helloWord
	WorkerBeat    = beatWord
	WorkerGoodbye = goodbyeWord
)

// ParseWorkerMessage reads what a worker sent and returns its word: one of
// WorkerHello, WorkerBeat, WorkerGoodbye. The error is an [*Error] for the sender.
func ParseWorkerMessage(m *nats.Msg) (word string, w WorkerMessage, err error) {
	word, token, _ := strings.Cut(strings.TrimPrefix(m.Subject, workerPrefix), ".")
	if word != helloWord && word != beatWord && word != goodbyeWord {
		return "", w, badWorker("there is no %s%s.*; a worker says hello, beat or goodbye", workerPrefix, word)
	}
	d := json.NewDecoder(bytes.NewReader(m.Data))
	if err := d.Decode(&w); err != nil {
		return "", w, badWorker("the body is not a JSON object with worker and boot: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", w, badWorker("there is more behind the JSON object")
	}
	if err := w.Check(); err != nil {
		return "", w, badWorker("%v", err)
	}
	if token != eventlog.Token(w.Worker) {
		return "", w, badWorker("the subject is that of another worker than %q", w.Worker)
	}
	return word, w, nil
}

func badWorker(format string, args ...any) *Error {
	return &Error{Code: http.StatusBadRequest, Title: "invalid worker message", Detail: fmt.Sprintf(format, args...)}
}

// Check says what is wrong with the message, nil when nothing is.
func (w WorkerMessage) Check() error {
	if err := checkWorkerName("worker", w.Worker); err != nil {
		return err
	}
	if err := checkWorkerName("boot", w.Boot); err != nil {
		return err
	}
	if w.Worker == domain.SourceMuster {
		return fmt.Errorf("worker: the name %s is Muster's own; give your worker another one", domain.SourceMuster)
	}
	if w.EveryMS < 0 {
		return errors.New("every_ms is not negative")
	}
	return nil
}

// maxWorkerName is the length of names of workers and boots, in bytes.
const maxWorkerName = 128

func checkWorkerName(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is missing", field)
	case len(name) > maxWorkerName:
		return fmt.Errorf("%s has %d bytes; %d are the most", field, len(name), maxWorkerName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s is not valid UTF-8", field)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s has a control character", field)
	}
	return nil
}
