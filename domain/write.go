package domain

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AppendJSON appends the trigger as the JSON object that [ParseTrigger] reads;
// what is not set is left out. The correlation ids and the trace context are no
// part of it: they travel beside it.
func (t *Trigger) AppendJSON(dst []byte) []byte {
	w := jsonWriter{b: append(dst, '{')}
	w.text("id", t.ID)
	w.text("account", string(t.Account))
	w.text("trigger", t.Name)
	w.text("key", t.Key)
	if t.HasAt {
		w.instant("at", t.At)
	}
	w.text("source", t.Source)
	w.number("epoch", t.Epoch)
	w.number("seq", t.Seq)
	w.text("by", string(t.By))
	if t.Reason != (Reason{}) {
		w.name("reason")
		inner := jsonWriter{b: append(w.b, '{')}
		inner.text("code", t.Reason.Code)
		inner.text("text", t.Reason.Text)
		w.b = append(inner.b, '}')
	}
	if len(t.Data) > 0 {
		w.name("data")
		w.value(map[string]any(t.Data))
	}
	if t.Expect != NoExpect {
		w.name("expect")
		w.b = strconv.AppendInt(w.b, t.Expect, 10)
	}
	w.text("machine", t.Machine)
	w.text("mode", t.Mode)
	if len(t.Labels) > 0 {
		w.name("labels")
		w.strings(t.Labels)
	}
	if t.Recorded != 0 {
		w.instant(fieldRecorded, t.Recorded)
	}
	return append(w.b, '}')
}

// MarshalJSON is AppendJSON for encoding/json.
func (t *Trigger) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// jsonWriter writes the members of an object.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) name(name string) {
	if last := w.b[len(w.b)-1]; last != '{' {
		w.b = append(w.b, ',')
	}
	w.quote(name)
	w.b = append(w.b, ':')
}

func (w *jsonWriter) text(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

func (w *jsonWriter) instant(name string, at int64) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = time.Unix(0, at).UTC().AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}

func (w *jsonWriter) number(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

// quote writes a text as JSON.
func (w *jsonWriter) quote(s string) {
	const hex = "0123456789abcdef"
	w.b = append(w.b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c < 0x20:
			w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			w.b = append(w.b, c)
		}
	}
	w.b = append(w.b, '"')
}

func (w *jsonWriter) strings(m map[string]string) {
	w.b = append(w.b, '{')
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.name(k)
		w.quote(m[k])
	}
	w.b = append(w.b, '}')
}

// value writes a value of Data; objects by the order of their names.
func (w *jsonWriter) value(v any) {
	switch x := v.(type) {
	case nil:
		w.b = append(w.b, "null"...)
	case bool:
		w.b = strconv.AppendBool(w.b, x)
	case string:
		w.quote(x)
	case float64:
		w.float(x)
	case []any:
		w.b = append(w.b, '[')
		for i, one := range x {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.value(one)
		}
		w.b = append(w.b, ']')
	case map[string]any:
		w.b = append(w.b, '{')
		for _, k := range slices.Sorted(maps.Keys(x)) {
			w.name(k)
			w.value(x[k])
		}
		w.b = append(w.b, '}')
	default:
		if n, ok := integer(v); ok {
			w.b = strconv.AppendInt(w.b, n, 10)
			return
		}
		w.other(v)
	}
}

// other writes what a program put into Data beside the types that it should
// hold, as encoding/json sees it.
func (w *jsonWriter) other(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null")
	}
	w.b = append(w.b, b...)
}

// float writes a number so that it is read back as one that is no integer.
func (w *jsonWriter) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.b = append(w.b, "null"...)
		return
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	w.b = append(w.b, s...)
	if !strings.ContainsAny(s, ".e") {
		w.b = append(w.b, ".0"...)
	}
}

// verdictJSON is the form of a verdict in answers.
type verdictJSON struct {
	Account string `json:"account"`
	Key     string `json:"key"`
	Trigger string `json:"trigger"`
	Outcome string `json:"outcome"`
	From    string `json:"from"`
	To      string `json:"to"`
	Version uint64 `json:"version"`
	Source  string `json:"source"`
	Reason  string `json:"reason"`
	Earlier string `json:"earlier,omitempty"`
}

// MarshalJSON writes the verdict as it stands in answers.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(verdictJSON{Account: string(v.Account), Key: v.Key, Trigger: v.Trigger, Outcome: v.Outcome.String(), From: v.From, To: v.To,
		Version: v.Version, Source: v.Source, Reason: v.Reason, Earlier: v.Earlier.String()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	var x verdictJSON
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	*v = Verdict{Account: AccountID(x.Account), Key: x.Key, Trigger: x.Trigger, From: x.From, To: x.To, Version: x.Version, Source: x.Source, Reason: x.Reason}
	v.Outcome, _ = ParseOutcome(x.Outcome)
	v.Earlier, _ = ParseOutcome(x.Earlier)
	return nil
}
