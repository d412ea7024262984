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
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/eventlog"
)

// erasingDir, in the data directory, holds streams while they are rewritten; it is
// there after an erasure that was interrupted.
const erasingDir = "erasing"

// errErasing: an erasure was interrupted half-way.
var errErasing = errors.New("an erasure was interrupted; run the same `muster erase` again")

// errIfErasing refuses to serve data that an erasure has left half-way.
func errIfErasing(data string) error {
	switch list, err := os.ReadDir(filepath.Join(data, erasingDir)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(list) > 0:
		return errErasing
	}
	return nil
}

// rewritten are the streams beside the history that may name accounts. What is
// deleted in a stream stays in its files for a while, so each is made anew.
var rewritten = []struct {
	name string
	drop bool // messages that hold something personal go; else it is replaced
}{
	{inbox.ParkStream, true},
	{"KV_MUSTER_HOOKS", true}, // connectors learn it again
	{"MUSTER_ALERTS", false},
	{"MUSTER_OP", false},
}

// saved is a stream on its way from the old one to the new.
type saved struct {
	Config   jetstream.StreamConfig `json:"config"`
	Messages []savedMessage         `json:"messages"`
}

type savedMessage struct {
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Data    []byte      `json:"data"`
}

// cleanStreams takes what is personal of the account out of all that is stored
// beside the history.
func (w *eraser) cleanStreams(ctx context.Context) error {
	in, err := w.js.Stream(ctx, inbox.Stream)
	if err == nil {
		if in.CachedInfo().State.Msgs > 0 {
			return ErrWaiting
		}
		err = in.Purge(ctx) // the files of what was judged
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("empty the inbox: %w", err)
	}
	for _, s := range rewritten {
		if err := w.rewrite(ctx, s.name, s.drop); err != nil {
			return fmt.Errorf("rewrite stream %s: %w", s.name, err)
		}
	}
	err = w.js.DeleteStream(ctx, "OBJ_MUSTER_BLOBS") // the key of what is in it is destroyed next
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the snapshots: %w", err)
	}
	return nil
}

// rewrite makes a stream anew, without what is personal.
func (w *eraser) rewrite(ctx context.Context, name string, drop bool) error {
	stream, err := w.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := w.save(ctx, stream, drop)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(w.dir, name)
	if err := writeSynced(path, text); err != nil {
		return err
	}
	return w.restore(ctx, path)
}

// save reads a stream.
func (w *eraser) save(ctx context.Context, stream jetstream.Stream, drop bool) (*saved, error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	s := &saved{Config: info.Config}
	s.Config.FirstSeq = max(info.State.FirstSeq, 1)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		one := savedMessage{Subject: m.Subject, Header: plainHeader(m.Header), Data: m.Data}
		if w.personal(&one) {
			if drop {
				continue
			}
			if one.Data, err = w.clean(one.Data); err != nil {
				return nil, fmt.Errorf("message %d: %w", seq, err)
			}
		}
		s.Messages = append(s.Messages, one)
	}
	return s, nil
}

// plainHeader leaves out what the server looked at when the message was stored.
func plainHeader(h nats.Header) nats.Header {
	out := nats.Header{}
	for k, v := range h {
		if !strings.HasPrefix(k, "Nats-Expected-") {
			out[k] = v
		}
	}
	return out
}

// personal says whether a message holds something personal of the account.
func (w *eraser) personal(m *savedMessage) bool {
	subject := m.Subject
	for _, token := range strings.Split(subject, ".") {
		if plain, err := eventlog.ParseToken(token); err == nil {
			subject += " " + plain
		}
	}
	header, _ := json.Marshal(m.Header) // a map of strings
	for text := range w.texts {
		quoted, _ := json.Marshal(text)
		q := bytes.Trim(quoted, `"`)
		if holds([]byte(subject), text) || holds(m.Data, text) || holds(m.Data, string(q)) || holds(header, string(q)) {
			return true
		}
	}
	return false
}

// clean puts the alias in the place of the account's id in a JSON document, and a
// word in that of other personal texts.
func (w *eraser) clean(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(w.cleaned(v))
}

func (w *eraser) cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return w.cleanText(v)
	case []any:
		for i := range v {
			v[i] = w.cleaned(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[w.cleanText(name)] = w.cleaned(x)
		}
		return out
	}
	return v
}

func (w *eraser) cleanText(s string) string {
	s = replaced(s, w.Account, w.alias)
	for text := range w.texts {
		s = replaced(s, text, "erased")
	}
	return s
}

// resume goes on with streams that an interrupted erasure has left.
func (w *eraser) resume(ctx context.Context) error {
	list, err := os.ReadDir(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range list {
		path := filepath.Join(w.dir, f.Name())
		if strings.HasSuffix(path, partial) {
			err = os.Remove(path)
		} else {
			err = w.restore(ctx, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restore makes a stream of what was saved, and removes that.
func (w *eraser) restore(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := w.js.DeleteStream(ctx, s.Config.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if _, err := w.js.CreateStream(ctx, s.Config); err != nil {
		return err
	}
	for _, m := range s.Messages {
		if _, err := w.js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	err = os.Remove(w.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil {
		return nil
	}
	if list, e := os.ReadDir(w.dir); e == nil && len(list) > 0 {
		return nil // others are left
	}
	return err
}

// partial ends the name of a file that is not whole yet.
const partial = ".partial"

// writeSynced writes a file that is whole or not there.
func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+partial, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
