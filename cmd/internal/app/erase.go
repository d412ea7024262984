package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/seal"
)

var (
	// ErrNotErasable: the data was created without the setting.
	ErrNotErasable = errors.New("its accounts cannot be erased: that is fixed when the data is created (muster serve --erasable)")
	// ErrNotForgotten: the account is still part of the fleet.
	ErrNotForgotten = errors.New("the account is still part of the fleet; forget it first (muster send --account ID forget)")
	// ErrWaiting: triggers wait in the inbox, which would bring the account back.
	ErrWaiting = errors.New("triggers wait in the inbox; start the server, and let it judge them")
)

// Erasure says what is erased, and for whom.
type Erasure struct {
	Data    string // the data directory of a server that is not running
	Account string
	By      string
	Reason  string
	Now     time.Time
}

// ErasureReport is what an erasure came to.
type ErasureReport struct {
	seal.Erased
	Events  uint64 `json:"events"`  // sealed records that stay
	Already bool   `json:"already"` // it had been erased before
	// Searched is how many personal texts of the account were looked for in every file
	// of the data directory afterwards, and Found where one was.
	Searched int      `json:"searched"`
	Found    []string `json:"found"`
}

// Erase makes an account's personal data unreadable for ever. It works on the data
// of a server that is not running, and can be repeated after an interruption.
func Erase(ctx context.Context, e Erasure) (*ErasureReport, error) {
	if !seal.Exist(KeysDir(e.Data)) {
		if _, err := os.Stat(filepath.Join(e.Data, "nats")); err != nil {
			return nil, fmt.Errorf("erase: %s holds no history: %w", e.Data, eventlog.ErrNotFound)
		}
		return nil, fmt.Errorf("erase: %s: %w", e.Data, ErrNotErasable)
	}
	lock, err := bus.LockDir(e.Data)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // the process ends soon
	r := &ErasureReport{Found: []string{}}
	texts, err := eraseStored(ctx, &e, r)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	r.Searched = len(texts)
	if r.Found, err = searchFiles(e.Data, texts); err != nil {
		return nil, fmt.Errorf("erase: look for what is left: %w", err)
	}
	return r, nil
}

// eraseStored does it with a server on the data, which is down when it returns. It
// returns the texts that nothing may hold any more.
func eraseStored(ctx context.Context, e *Erasure, r *ErasureReport) (texts []string, err error) {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: e.Data, Listen: "127.0.0.1:0", Sync: bus.SyncAlways})
	if err != nil {
		return nil, err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err = errors.Join(err, srv.Shutdown(bounded))
	}()
	nc, err := srv.Connect("muster erase")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	keys, err := seal.Open(KeysDir(e.Data), 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, keys.Close()) }()
	w := &eraser{Erasure: *e, nc: nc, keys: keys, dir: filepath.Join(e.Data, erasingDir)}
	if w.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if err := w.resume(ctx); err != nil {
		return nil, err
	}
	if was, ok := keys.Erased(e.Account); ok {
		r.Erased, r.Already = was, true
		return nil, nil
	}
	return w.run(ctx, r)
}

// eraser erases one account.
type eraser struct {
	Erasure
	nc   *nats.Conn
	js   jetstream.JetStream
	keys *seal.Keys
	dir  string // of streams that are being rewritten

	alias string
	texts map[string]bool // what is personal of the account
}

func (w *eraser) run(ctx context.Context, r *ErasureReport) ([]string, error) {
	alias, ok := w.keys.Alias(w.Account)
	if !ok {
		return nil, fmt.Errorf("there is no account %q: %w", w.Account, eventlog.ErrNotFound)
	}
	w.alias = alias
	acct, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	if acct == nil || !acct.Forgotten {
		return nil, fmt.Errorf("account %q: %w", w.Account, ErrNotForgotten)
	}
	r.Events = acct.Version
	if err := w.cleanStreams(ctx); err != nil {
		return nil, err
	}
	log, err := operator.Open(ctx, w.nc, 1)
	if err != nil {
		return nil, err
	}
	_, _, err = log.Append(ctx, operator.Action{
		ID: "erase-" + strings.TrimPrefix(alias, "~"), At: w.Now, By: w.By, Action: "erase", Reason: w.Reason,
		Target: map[string]string{operator.Account: alias},
	})
	if err != nil {
		return nil, err
	}
	done, err := w.keys.Erase([]string{w.Account}, seal.Erased{At: w.Now.UTC(), By: w.By, Reason: w.Reason})
	if err != nil {
		return nil, err
	}
	r.Erased = done[0]
	texts := make([]string, 0, len(w.texts))
	for text := range w.texts {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts, nil
}

// read folds the account, and collects what of its history is personal.
func (w *eraser) read(ctx context.Context) (*domain.Account, error) {
	stored, err := natslog.Open(ctx, w.nc, natslog.Config{RecordLayout: natslog.SealedLayout})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stored.Close() }() // nothing was appended
	log, err := seal.Wrap(stored, w.keys)
	if err != nil {
		return nil, err
	}
	w.texts = map[string]bool{w.Account: true}
	var acct *domain.Account
	for rec, err := range log.Account(ctx, w.Account, 1) {
		if err != nil {
			return nil, err
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", rec.Seq, err)
		}
		acct = domain.Evolve(acct, &e)
		w.collect(&e)
	}
	return acct, nil
}

// shortest is the length of the shortest text that is looked for: a shorter one is
// found anywhere.
const shortest = 6

func (w *eraser) collect(e *domain.Event) {
	note := func(text string) {
		if len(text) >= shortest && !w.keys.Open(w.Account, text) {
			w.texts[text] = true
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			note(v)
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(map[string]any(e.Data))
	for _, text := range []string{e.Source, e.Reason.Code, e.Reason.Text, e.Correlation, e.Causation} {
		note(text)
	}
	message, _ := e.Data["message"].(string)
	for _, text := range []string{e.ID, e.Key, message} { // hidden also when they look like words
		if len(text) >= shortest && strings.ContainsAny(text, "0123456789") {
			w.texts[text] = true
		}
	}
	for _, text := range e.Labels {
		note(text)
	}
	for _, c := range e.Set {
		note(c.Scope)
		note(c.Reason)
	}
}

// searchFiles returns the files of a folder that hold one of the texts, as it is, or
// as it stands in JSON or in a subject.
func searchFiles(dir string, texts []string) ([]string, error) {
	forms := map[string]bool{}
	for _, text := range texts {
		forms[text], forms[eventlog.Token(text)] = true, true
		if quoted, err := json.Marshal(text); err == nil {
			forms[string(bytes.Trim(quoted, `"`))] = true
		}
	}
	found := []string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for form := range forms {
			if holds(content, form) {
				found = append(found, path)
				break
			}
		}
		return nil
	})
	return found, err
}

// holds says whether a text stands in b by itself, and not as a part of a longer word.
func holds(b []byte, text string) bool {
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte(text))
		if i < 0 {
			return false
		}
		i += from
		if end := i + len(text); !(i > 0 && wordByte(b[i-1])) && !(end < len(b) && wordByte(b[end])) {
			return true
		}
		from = i + 1
	}
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
}

// replaced is s with another text wherever old stands by itself.
func replaced(s, old, with string) string {
	var out strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], old)
		if i < 0 {
			out.WriteString(s[from:])
			return out.String()
		}
		i += from
		end := i + len(old)
		out.WriteString(s[from:i])
		if i > 0 && wordByte(s[i-1]) || end < len(s) && wordByte(s[end]) {
			out.WriteString(old)
		} else {
			out.WriteString(with)
		}
		from = end
	}
}
