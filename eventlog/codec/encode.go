package codec

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/domain"
)

// Encode returns the event's record.
func Encode(e *domain.Event) ([]byte, error) { return AppendRecord(nil, e) }

// AppendRecord appends the event's record to dst. The same event always gives
// the same bytes. An event that Decode would not take back (no account,
// version 0, an outcome that is never appended, data that is not JSON) is an
// ErrUnencodable, and dst comes back as it was.
func AppendRecord(dst []byte, e *domain.Event) ([]byte, error) {
	if f := invalidField(e); f != fUnknown {
		return dst, fmt.Errorf("%w: no usable value for key %q", ErrUnencodable, fields[f].key)
	}
	w := getWriter(dst)
	defer putWriter(w)
	at := w.beginMap()
	w.record(e)
	w.endMap(at)
	if w.err != nil {
		return dst, fmt.Errorf("encode event %d of account %q: %w", e.Version, e.Account, w.err)
	}
	return w.buf, nil
}

// writer appends msgpack to buf through msgpack/v5's encoder, which writes to
// it. Its first error stays.
type writer struct {
	buf   []byte
	enc   *msgpack.Encoder
	keys  []string // scratch for sorting map keys
	count int      // entries of the map begun last
	err   error
}

var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.enc = msgpack.NewEncoder(w)
	w.enc.UseCompactInts(true)
	return w
}}

func getWriter(dst []byte) *writer {
	w := writers.Get().(*writer)
	w.buf, w.err, w.count = dst, nil, 0
	return w
}

func putWriter(w *writer) {
	w.buf = nil
	clear(w.keys)
	w.keys = w.keys[:0]
	writers.Put(w)
}

// Write appends b; it never fails.
func (w *writer) Write(b []byte) (int, error) {
	w.buf = append(w.buf, b...)
	return len(b), nil
}

// WriteByte appends c; it never fails.
func (w *writer) WriteByte(c byte) error {
	w.buf = append(w.buf, c)
	return nil
}

func (w *writer) keep(err error) {
	if err != nil && w.err == nil {
		w.err = err
	}
}

// beginMap leaves room for the head of a map whose entries are counted while
// they are written; endMap fills it in. Such maps do not nest.
func (w *writer) beginMap() int {
	w.count = 0
	w.buf = append(w.buf, 0)
	return len(w.buf) - 1
}

func (w *writer) endMap(at int) {
	if w.count < 16 {
		w.buf[at] = 0x80 | byte(w.count)
		return
	}
	w.buf = append(w.buf, 0, 0)
	copy(w.buf[at+3:], w.buf[at+1:len(w.buf)-2])
	w.buf[at], w.buf[at+1], w.buf[at+2] = 0xde, byte(w.count>>8), byte(w.count)
}

// record writes the entries in the format's order.
func (w *writer) record(e *domain.Event) {
	w.uint(fVersion, Version)
	w.uint(fNumber, e.Version)
	w.str(fID, e.ID)
	w.str(fAccount, string(e.Account))
	w.uint(fKind, uint64(e.Kind))
	w.str(fMachine, e.Machine)
	w.str(fInitial, e.Initial)
	w.str(fMode, e.Mode)
	w.labels(e.Labels)
	w.str(fKey, e.Key)
	w.str(fTrigger, e.Trigger)
	w.uint(fOutcome, uint64(e.Outcome))
	w.str(fFrom, e.From)
	w.str(fTo, e.To)
	w.int(fAt, e.At)
	w.int(fRecorded, e.Recorded)
	w.str(fSource, e.Source)
	w.int(fEpoch, e.Epoch)
	w.int(fSeq, e.Seq)
	w.str(fBy, string(e.By))
	w.str(fCode, e.Reason.Code)
	w.str(fText, e.Reason.Text)
	w.str(fVerdict, e.Verdict)
	if len(e.Data) > 0 {
		w.key(fData)
		w.object(e.Data, 1)
	}
	w.set(e.Set)
	w.ended(e.Ended)
	w.uint(fEffects, uint64(e.Effects))
	w.str(fCorrelation, e.Correlation)
	w.str(fCausation, e.Causation)
	w.str(fTraceparent, e.Traceparent)
	w.uint(fWriter, e.Writer)
	if e.Prev != [16]byte{} {
		w.key(fPrev)
		w.keep(w.enc.EncodeBytes(e.Prev[:]))
	}
}

func (w *writer) key(f field) { w.name(fields[f].key) }

func (w *writer) str(f field, v string) { w.named(fields[f].key, v) }

func (w *writer) int(f field, v int64) { w.numbered(fields[f].key, v) }

func (w *writer) uint(f field, v uint64) {
	if v != 0 {
		w.key(f)
		w.keep(w.enc.EncodeUint(v))
	}
}

// name writes the key of an entry of the map begun last.
func (w *writer) name(key string) {
	w.count++
	w.keep(w.enc.EncodeString(key))
}

// named writes an entry unless it is empty.
func (w *writer) named(key, v string) {
	if v != "" {
		w.name(key)
		w.keep(w.enc.EncodeString(v))
	}
}

// numbered writes an entry unless it is 0.
func (w *writer) numbered(key string, v int64) {
	if v != 0 {
		w.name(key)
		w.keep(w.enc.EncodeInt(v))
	}
}

func (w *writer) labels(m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.key(fLabels)
	w.stringMap(m)
}

// stringMap writes a map with its keys sorted.
func (w *writer) stringMap(m map[string]string) {
	base := len(w.keys)
	for k := range m {
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys[base:])
	w.keep(w.enc.EncodeMapLen(len(m)))
	for _, k := range w.keys[base:] {
		w.keep(w.enc.EncodeString(k))
		w.keep(w.enc.EncodeString(m[k]))
	}
	w.keys = w.keys[:base]
}

func (w *writer) set(cs []domain.Condition) {
	if len(cs) == 0 {
		return
	}
	w.key(fSet)
	w.keep(w.enc.EncodeArrayLen(len(cs)))
	for i := range cs {
		c := &cs[i]
		n := 0
		for _, there := range [...]bool{c.Name != "", c.Scope != "", c.Since != 0, c.Until != 0, c.Reason != ""} {
			if there {
				n++
			}
		}
		w.keep(w.enc.EncodeMapLen(n))
		w.entry("n", c.Name)
		w.entry("s", c.Scope)
		w.timeEntry("i", c.Since)
		w.timeEntry("u", c.Until)
		w.entry("r", c.Reason)
	}
}

func (w *writer) ended(refs []domain.ConditionRef) {
	if len(refs) == 0 {
		return
	}
	w.key(fEnded)
	w.keep(w.enc.EncodeArrayLen(len(refs)))
	for _, r := range refs {
		n := 0
		if r.Name != "" {
			n++
		}
		if r.Scope != "" {
			n++
		}
		w.keep(w.enc.EncodeMapLen(n))
		w.entry("n", r.Name)
		w.entry("s", r.Scope)
	}
}

func (w *writer) entry(key, v string) {
	if v != "" {
		w.keep(w.enc.EncodeString(key))
		w.keep(w.enc.EncodeString(v))
	}
}

func (w *writer) timeEntry(key string, v int64) {
	if v != 0 {
		w.keep(w.enc.EncodeString(key))
		w.keep(w.enc.EncodeInt(v))
	}
}

// object writes a map of JSON values with its keys sorted.
func (w *writer) object(m map[string]any, depth int) {
	base := len(w.keys)
	for k := range m {
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys[base:])
	w.keep(w.enc.EncodeMapLen(len(m)))
	for i := base; i < base+len(m); i++ {
		k := w.keys[i]
		w.keep(w.enc.EncodeString(k))
		w.value(k, m[k], depth)
	}
	w.keys = w.keys[:base]
}

// value writes one JSON value; key is the data key it stands under, for the error.
func (w *writer) value(key string, v any, depth int) {
	switch v := v.(type) {
	case nil:
		w.keep(w.enc.EncodeNil())
	case string:
		w.keep(w.enc.EncodeString(v))
	case bool:
		w.keep(w.enc.EncodeBool(v))
	case int64:
		w.keep(w.enc.EncodeInt(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.keep(fmt.Errorf("%w: data %q is not a finite number", ErrUnencodable, key))
		}
		w.keep(w.enc.EncodeFloat64(v))
	case map[string]any:
		if w.deep(key, depth) {
			w.object(v, depth+1)
		}
	case []any:
		if w.deep(key, depth) {
			w.keep(w.enc.EncodeArrayLen(len(v)))
			for _, x := range v {
				w.value(key, x, depth+1)
			}
		}
	default:
		w.keep(fmt.Errorf("%w: data %q is a %T, which is not a JSON value", ErrUnencodable, key, v))
	}
}

func (w *writer) deep(key string, depth int) bool {
	if depth < maxDepth {
		return true
	}
	w.keep(fmt.Errorf("%w: data %q lies more than %d levels deep", ErrUnencodable, key, maxDepth))
	return false
}
