// Package redact keeps access tokens and telephone numbers out of the program's
// log.
//
// It owns a slog.Handler that stands before the real one. In records of level info
// and above it replaces, in messages and in the text of every attribute, what looks
// like a token by its id, and what looks like a telephone number by a name that is
// the same for the same number as long as the process runs, so that lines about one
// account can still be found together. Records of level debug are left as they are:
// whoever turns them on wants to see everything. The lines of transitions are data
// and do not come here; the setting log-transitions turns them off.
//
// It recognises by looks alone: an account whose id is no number is shown as it is,
// and a number of ten to fifteen digits that is none is replaced as well.
package redact

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// Handler is the handler that replaces.
type Handler struct {
	next slog.Handler
	key  []byte // of the names
}

var _ slog.Handler = (*Handler)(nil)

// New returns a Handler before another one.
func New(next slog.Handler) *Handler {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails, by its contract
	return &Handler{next: next, key: key}
}

// Enabled is the real handler's.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle replaces and hands on.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return h.next.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs replaces at once: those attributes stand in records of every level.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &Handler{h.next.WithAttrs(clean), h.key}
}

// WithGroup is the real handler's.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.key}
}

// attr replaces in the text of an attribute. Numbers, times and durations are none.
func (h *Handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.text(v.String()))
	case slog.KindGroup:
		members := v.Group()
		clean := make([]slog.Attr, len(members))
		for i, m := range members {
			clean[i] = h.attr(m)
		}
		a.Value = slog.GroupValue(clean...)
	case slog.KindAny:
		// Only what holds something is made text of: other values keep their form.
		if text := fmt.Sprint(v.Any()); h.text(text) != text {
			a.Value = slog.StringValue(h.text(text))
		}
	default:
	}
	return a
}

var (
	token = regexp.MustCompile(`mst_([a-z2-7]{4,32})_[0-9A-Za-z]+`)
	// number is a run of digits that is as long as a telephone number with its
	// country's code, or shorter with a plus, which may be escaped as in a subject.
	number = regexp.MustCompile(`(?:\+|=2B)[0-9]{7,}|[0-9]{10,}`)
)

// longest is how many digits a telephone number has at most.
const longest = 15

// text replaces in a text.
func (h *Handler) text(s string) string {
	if strings.Contains(s, "mst_") {
		s = token.ReplaceAllString(s, "mst_${1}_…")
	}
	return number.ReplaceAllStringFunc(s, func(found string) string {
		digits := strings.TrimPrefix(strings.TrimPrefix(found, "+"), "=2B")
		if len(digits) > longest {
			return found // a number of another kind
		}
		mac := hmac.New(sha256.New, h.key)
		mac.Write([]byte(digits))
		return "tel-" + hex.EncodeToString(mac.Sum(nil)[:4])
	})
}
