package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Recent remembers the last 64 ids that publishers gave, with what came of them.
// It is packed, because every account has one: for each id eight bytes of its
// SHA-256, the outcome, from and to (one byte for a well-known name), and the
// version; oldest first. Two different ids are taken for the same one with a
// probability of about 2⁻⁵⁸.
type Recent string

// maxRecent is how many ids are remembered.
const maxRecent = 64

// earlier is the result of a trigger that was judged before.
type earlier struct {
	outcome  Outcome
	from, to string
	version  uint64
}

type idHash [8]byte

func hashID(id string) (h idHash) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

// find returns what came of the id.
func (r Recent) find(id string) (earlier, bool) {
	if len(r) == 0 {
		return earlier{}, false
	}
	h := hashID(id)
	for rest := string(r); len(rest) > 0; {
		e, n := readRecent(rest)
		if rest[:len(h)] == string(h[:]) {
			return e, true
		}
		rest = rest[n:]
	}
	return earlier{}, false
}

// add returns r with one more id, and without the oldest when there are too many.
func (r Recent) add(id string, e earlier) Recent {
	var buf [64]byte
	one := appendRecent(buf[:0], id, e)
	count, first := 0, 0
	for rest := string(r); len(rest) > 0; count++ {
		_, n := readRecent(rest)
		if count == 0 {
			first = n
		}
		rest = rest[n:]
	}
	if count >= maxRecent {
		r = r[first:]
	}
	return r + Recent(one)
}

// appendRecent appends one entry.
func appendRecent(b []byte, id string, e earlier) []byte {
	h := hashID(id)
	b = append(append(b, h[:]...), byte(e.outcome))
	b = appendName(appendName(b, e.from), e.to)
	return binary.AppendUvarint(b, e.version)
}

// readRecent reads the first entry and its length.
func readRecent(s string) (e earlier, n int) {
	n = len(idHash{})
	e.outcome = Outcome(s[n])
	n++
	e.from, n = readName(s, n)
	e.to, n = readName(s, n)
	var shift uint
	for ; ; n++ {
		e.version |= uint64(s[n]&0x7f) << shift
		if s[n] < 0x80 {
			return e, n + 1
		}
		shift += 7
	}
}

// whole says whether r is made of whole entries, at most 64.
func (r Recent) whole() bool {
	count := 0
	for rest := string(r); len(rest) > 0; count++ {
		n := recentLength(rest)
		if n == 0 || count == maxRecent {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// recentLength is the length of the first entry, 0 when it is not whole.
func recentLength(s string) int {
	at := len(idHash{}) + 1
	for range 2 { // from and to
		switch {
		case at+1 >= len(s):
			return 0
		case s[at] == literal:
			at += 2 + int(s[at+1])
		case int(s[at]) >= len(wellKnown):
			return 0
		default:
			at++
		}
	}
	for range binary.MaxVarintLen64 {
		if at >= len(s) {
			return 0
		}
		at++
		if s[at-1] < 0x80 {
			return at
		}
	}
	return 0
}

// wellKnown are the names that take one byte. The order is part of the stored
// form: new ones are added at the end.
var wellKnown = []string{"", "IDLE", "CONNECTING", "QR_REQUIRED", "SYNCING", "RUNNING", "DEGRADED", "DISCONNECTED", "RECONNECTING", "LOGGED_OUT", "STOPPED",
	"UNINIT", "LOGGING", "LOGGED", "UNKNOWN", "ONLINE", "OFFLINE",
	"PENDING", "SENT", "DELIVERED", "READ", "REPLIED", "TIMED_OUT", "FAILED", "BOT", "HUMAN", "ENDED",
	ModeObserve, ModeSupervise, DesiredRun, DesiredStop, "whatsapp@1", "whatsapp@2", "wecom@1", "instance@1"}

var wellKnownIndex = func() map[string]byte {
	m := make(map[string]byte, len(wellKnown))
	for i, n := range wellKnown {
		m[n] = byte(i)
	}
	return m
}()

const literal = 255

// nameSlots finds most well-known names without hashing them: by their length
// and two of their bytes. A name whose place is taken is found in the index.
var nameSlots = func() (slots [256]byte) {
	for i, name := range wellKnown {
		if s := &slots[nameSlot(name)]; *s == 0 {
			*s = byte(i)
		}
	}
	return slots
}()

func nameSlot(name string) byte {
	if name == "" {
		return 0
	}
	return byte(len(name))*37 ^ name[0]*5 ^ name[len(name)-1]*11
}

// wellKnownAt is the place of a well-known name.
func wellKnownAt(name string) (i byte, ok bool) {
	if i = nameSlots[nameSlot(name)]; wellKnown[i] == name {
		return i, true
	}
	i, ok = wellKnownIndex[name]
	return i, ok
}

func appendName(b []byte, name string) []byte {
	if i, ok := wellKnownAt(name); ok {
		return append(b, i)
	}
	if len(name) > literal {
		name = name[:literal]
	}
	return append(append(b, literal, byte(len(name))), name...)
}

func readName(s string, at int) (name string, next int) {
	if s[at] != literal {
		return wellKnown[s[at]], at + 1
	}
	n := int(s[at+1])
	return s[at+2 : at+2+n], at + 2 + n
}

// intern returns the program's own copy of a well-known name, so that accounts
// that were read from a log do not each hold theirs.
func intern(name string) string {
	if i, ok := wellKnownAt(name); ok {
		return wellKnown[i]
	}
	return name
}

// ownName is intern for a name that must not be kept as it is.
func ownName(name string) string {
	if i, ok := wellKnownAt(name); ok {
		return wellKnown[i]
	}
	return strings.Clone(name)
}

// Has says whether the id is among the remembered ones.
func (r Recent) Has(id string) bool {
	_, ok := r.find(id)
	return ok
}

// Newest says whether the id is the last one that was remembered.
func (r Recent) Newest(id string) bool {
	h := hashID(id)
	var last string
	for rest := string(r); len(rest) > 0; {
		_, n := readRecent(rest)
		last, rest = rest[:len(h)], rest[n:]
	}
	return last == string(h[:])
}
