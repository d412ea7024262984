package bus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// wireReply is how a reply is read; it is written by the methods above.
type wireReply struct {
	Account string            `json:"account"`
	Key     string            `json:"key"`
	Trigger string            `json:"trigger"`
	Outcome string            `json:"outcome"`
	From    string            `json:"from"`
	To      string            `json:"to"`
	Version uint64            `json:"version"`
	Reason  string            `json:"reason"`
	Earlier string            `json:"earlier"`
	AsOf    map[string]uint64 `json:"as_of"`
}

// ParseReply reads a reply in msgpack or JSON. Unknown names are skipped, so
// that an older client understands a newer server.
func ParseReply(b []byte) (Reply, error) {
	if r, ok := unpackFast(b); ok {
		return r, nil
	}
	var w wireReply
	if isMsgpackMap(b) {
		if err := unpackReply(b, &w); err != nil {
			return Reply{}, fmt.Errorf("read verdict: %w", err)
		}
	} else if err := json.Unmarshal(b, &w); err != nil {
		return Reply{}, fmt.Errorf("read verdict: %w", err)
	}
	return w.reply()
}

// isMsgpackMap tells msgpack from JSON by the first byte: no JSON text begins with it.
func isMsgpackMap(b []byte) bool {
	return len(b) > 0 && (b[0]&0xf0 == 0x80 || b[0] == 0xde || b[0] == 0xdf)
}

func (w *wireReply) reply() (Reply, error) {
	r := Reply{Partition: -1}
	outcome, ok := domain.ParseOutcome(w.Outcome)
	if !ok {
		return r, fmt.Errorf("read verdict: unknown outcome %q", w.Outcome)
	}
	earlier, ok := domain.ParseOutcome(w.Earlier)
	if !ok && w.Earlier != "" {
		return r, fmt.Errorf("read verdict: unknown earlier outcome %q", w.Earlier)
	}
	r.Verdict = domain.Verdict{
		Account: domain.AccountID(w.Account), Key: w.Key, Trigger: w.Trigger, Outcome: outcome,
		From: w.From, To: w.To, Version: w.Version, Reason: w.Reason, Earlier: earlier,
	}
	for p, seq := range w.AsOf {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return r, fmt.Errorf("read verdict: partition %q", p)
		}
		r.Partition, r.Seq = n, seq
	}
	return r, nil
}

// unpackReply reads a reply in msgpack in any form.
func unpackReply(b []byte, w *wireReply) error {
	m, err := codec.Unpack(b)
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{
		"account": &w.Account, "key": &w.Key, "trigger": &w.Trigger, "outcome": &w.Outcome,
		"from": &w.From, "to": &w.To, "reason": &w.Reason, "earlier": &w.Earlier,
	} {
		v, ok := m[name].(string)
		if !ok && m[name] != nil {
			return fmt.Errorf("%s is no text", name)
		}
		*to = v
	}
	if w.Version, err = natural("version", m["version"]); err != nil {
		return err
	}
	asOf, ok := m["as_of"].(map[string]any)
	if !ok && m["as_of"] != nil {
		return errors.New("as_of is no map")
	}
	w.AsOf = make(map[string]uint64, len(asOf))
	for p, v := range asOf {
		if w.AsOf[p], err = natural("as_of", v); err != nil {
			return err
		}
	}
	return nil
}

// natural is a number of a reply; none counts as 0.
func natural(name string, v any) (uint64, error) {
	switch n := v.(type) {
	case nil:
		return 0, nil
	case uint64:
		return n, nil
	case int64:
		if n >= 0 {
			return uint64(n), nil
		}
	}
	return 0, fmt.Errorf("%s is no whole number", name)
}

// unpackFast reads a reply as AppendMsgpack writes it, and gives up on anything
// else, which is then read at leisure: a busy client spends more on reading
// replies than on all else of its own.
func unpackFast(b []byte) (Reply, bool) {
	u := unpacker{b: b}
	r := Reply{Partition: -1}
	seen := 0
	for n := u.small(0x80); n > 0 && !u.bad; n-- {
		name := u.text()
		seen = u.once(seen, name)
		switch string(name) {
		case "account":
			r.Account = domain.AccountID(u.text())
		case "key":
			r.Key = string(u.text())
		case "trigger":
			r.Trigger = string(u.text())
		case "outcome":
			r.Outcome = u.outcome()
		case "from":
			r.From = string(u.text())
		case "to":
			r.To = string(u.text())
		case "version":
			r.Version = u.uint()
		case "reason":
			r.Reason = string(u.text())
		case "earlier":
			r.Earlier = u.outcome()
		case "as_of":
			u.bad = u.bad || r.Partition >= 0 // a second one would have to be merged
			r.Partition, r.Seq = u.asOf()
		default:
			u.bad = true
		}
	}
	return r, !u.bad && len(u.b) == 0 && r.Outcome != 0
}

// onceNames are the names that the fast way knows.
var onceNames = [...]string{"account", "key", "trigger", "outcome", "from", "to", "version", "reason", "earlier", "as_of"}

// once notes a name among those seen; a second time is bad.
func (u *unpacker) once(seen int, name []byte) int {
	for i, n := range onceNames {
		if n == string(name) {
			u.bad = u.bad || seen&(1<<i) != 0
			return seen | 1<<i
		}
	}
	return seen
}

// unpacker reads msgpack from the front of b; bad is set by what it does not know.
type unpacker struct {
	b   []byte
	bad bool
}

// take cuts n bytes off; nil when there are not so many.
func (u *unpacker) take(n int) []byte {
	if u.bad || n > len(u.b) {
		u.bad = true
		return nil
	}
	head := u.b[:n]
	u.b = u.b[n:]
	return head
}

// code cuts one byte off; 0xc1, which msgpack does not use, when there is none.
func (u *unpacker) code() byte {
	if head := u.take(1); head != nil {
		return head[0]
	}
	return 0xc1
}

// number cuts a big-endian number of n bytes off.
func (u *unpacker) number(n int) uint64 {
	var wide [8]byte
	copy(wide[8-n:], u.take(n))
	return binary.BigEndian.Uint64(wide[:])
}

// small reads the head of a map in its short form.
func (u *unpacker) small(form byte) int {
	c := u.code()
	if c&0xf0 != form {
		u.bad = true
		return 0
	}
	return int(c & 0x0f)
}

func (u *unpacker) text() []byte {
	switch c := u.code(); {
	case c&0xe0 == 0xa0:
		return u.take(int(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return u.take(int(u.number(1 << (c - 0xd9))))
	}
	u.bad = true
	return nil
}

func (u *unpacker) uint() uint64 {
	switch c := u.code(); {
	case c < 0x80:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return u.number(1 << (c - 0xcc))
	}
	u.bad = true
	return 0
}

func (u *unpacker) outcome() domain.Outcome {
	o, ok := domain.ParseOutcome(string(u.text()))
	u.bad = u.bad || !ok
	return o
}

// asOf reads a position of one partition, or of none.
func (u *unpacker) asOf() (partition int, seq uint64) {
	switch u.small(0x80) {
	case 0:
		return -1, 0
	case 1:
		p, err := strconv.Atoi(string(u.text()))
		u.bad = u.bad || err != nil || p < 0
		return p, u.uint()
	}
	u.bad = true
	return -1, 0
}
