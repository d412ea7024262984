package codec

import (
	"encoding/binary"

	"github.com/musterhq/muster/domain"
)

// Brief reads a record about a message or a conversation of an account as far
// as a fold of them needs it. Most of a history are such records, and this takes
// a third of the time of Read. It is true for records that Read reads without an
// error, and of which a domain.Brief tells all; for any other it is false, which
// says nothing against the record: Read must be asked.
//
// The strings of o are part of b, as those of Read are.
func Brief(b []byte, account domain.AccountID, o *domain.Brief) bool {
	if len(b) < 32 {
		return false
	}
	r := briefReader{b: b}
	switch {
	case b[0]&0xf0 == 0x80:
		r.left, r.i = int(b[0]&15), 1
	case b[0] == 0xde:
		r.left, r.i = int(binary.BigEndian.Uint16(b[1:])), 3
	default:
		return false
	}
	return r.subject(account, o) && r.verdict(o) && r.rest(o) && r.left == 0 && r.i == len(b)
}

// The keys in the form in which they stand in a record, as little-endian numbers.
const (
	keyVersion     = 0xa1 | 'v'<<8
	keyNumber      = 0xa1 | 'n'<<8
	keyID          = 0xa2 | 'i'<<8 | 'd'<<16
	keyAccount     = 0xa1 | 'a'<<8
	keyKind        = 0xa1 | 'k'<<8
	keyKey         = 0xa1 | 'y'<<8
	keyTrigger     = 0xa1 | 't'<<8
	keyOutcome     = 0xa1 | 'o'<<8
	keyFrom        = 0xa1 | 'f'<<8
	keyTo          = 0xa1 | 's'<<8
	keyAt          = 0xa2 | 'a'<<8 | 't'<<16
	keyRecorded    = 0xa2 | 'r'<<8 | 't'<<16
	keySource      = 0xa2 | 's'<<8 | 'r'<<16
	keyEpoch       = 0xa2 | 'e'<<8 | 'p'<<16
	keySeq         = 0xa2 | 's'<<8 | 'q'<<16
	keyBy          = 0xa2 | 'b'<<8 | 'y'<<16
	keyReason      = 0xa2 | 'r'<<8 | 'c'<<16
	keyText        = 0xa2 | 'r'<<8 | 'x'<<16
	keyVerdict     = 0xa2 | 'v'<<8 | 'r'<<16
	keyData        = 0xa1 | 'd'<<8
	keyEffects     = 0xa2 | 'f'<<8 | 'x'<<16
	keyCorrelation = 0xa2 | 'c'<<8 | 'o'<<16
	keyCausation   = 0xa2 | 'c'<<8 | 'a'<<16
	keyTraceparent = 0xa2 | 't'<<8 | 'p'<<16
	keyWriter      = 0xa1 | 'w'<<8
	keyPrev        = 0xa2 | 'p'<<8 | 'h'<<16
)

// briefReader walks over a record whose keys stand in the order of the format.
type briefReader struct {
	b    []byte
	i    int
	left int // entries of the record's map
}

// word is the next four bytes as a little-endian number, 0 when fewer are left:
// behind the last key stands more than that.
func (r *briefReader) word() uint32 {
	if len(r.b)-r.i < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(r.b[r.i:])
}

// key passes over a key of one letter, if it is the next one.
func (r *briefReader) key(code uint32) bool {
	if r.word()&0xffff != code {
		return false
	}
	r.i += 2
	r.left--
	return true
}

// key2 passes over a key of two letters, if it is the next one.
func (r *briefReader) key2(code uint32) bool {
	if r.word()&0xffffff != code {
		return false
	}
	r.i += 3
	r.left--
	return true
}

// text takes a text of up to 255 bytes.
func (r *briefReader) text(s *string) bool {
	b, i := r.b, r.i
	if i >= len(b) {
		return false
	}
	n := int(b[i]) - 0xa0
	if n < 0 || n > 31 {
		if b[i] != 0xd9 || i+1 >= len(b) {
			return false
		}
		i++
		n = int(b[i])
	}
	i++
	if n > len(b)-i {
		return false
	}
	*s = alias(b[i : i+n : i+n])
	r.i = i + n
	return true
}

// number takes a number that is not negative.
func (r *briefReader) number() (u uint64, ok bool) {
	b := r.b[min(r.i, len(r.b)):]
	if len(b) < 9 { // the record's last entry is a hash
		return 0, false
	}
	switch x := b[0]; {
	case x < 0x80:
		r.i++
		return uint64(x), true
	case x == 0xcc:
		r.i += 2
		return uint64(b[1]), true
	case x == 0xcd:
		r.i += 3
		return uint64(binary.BigEndian.Uint16(b[1:])), true
	case x == 0xce:
		r.i += 5
		return uint64(binary.BigEndian.Uint32(b[1:])), true
	case x == 0xcf:
		r.i += 9
		return binary.BigEndian.Uint64(b[1:]), true
	}
	return 0, false
}

// time takes a number that has a sign in an event, and is not negative.
func (r *briefReader) time(at *int64) bool {
	u, ok := r.number()
	*at = int64(u)
	return ok && *at >= 0
}

// subject reads what comes up to the trigger.
func (r *briefReader) subject(account domain.AccountID, o *domain.Brief) bool {
	b := r.b
	if !r.key(keyVersion) || b[r.i] != Version {
		return false
	}
	r.i++
	if !r.key(keyNumber) {
		return false
	}
	n, ok := r.number()
	if !ok || n == 0 {
		return false
	}
	o.Version, o.ID, o.Key = n, "", ""
	if r.key2(keyID) && !r.text(&o.ID) {
		return false
	}
	var id string
	if !r.key(keyAccount) || !r.text(&id) || id == "" || id != string(account) || !r.key(keyKind) || r.i >= len(b) {
		return false
	}
	o.Kind = domain.Kind(b[r.i])
	r.i++
	if o.Kind != domain.KindMessage && o.Kind != domain.KindConversation {
		return false
	}
	if r.key(keyKey) && !r.text(&o.Key) {
		return false
	}
	return r.key(keyTrigger) && r.text(&o.Trigger) && o.Trigger != ""
}

// verdict reads what comes up to the time of recording.
func (r *briefReader) verdict(o *domain.Brief) bool {
	if !r.key(keyOutcome) || r.i >= len(r.b) {
		return false
	}
	o.Outcome = domain.Outcome(r.b[r.i])
	r.i++
	if !o.Outcome.Appended() {
		return false
	}
	o.From, o.To = "", ""
	if r.key(keyFrom) && !r.text(&o.From) || r.key(keyTo) && !r.text(&o.To) {
		return false
	}
	return r.key2(keyAt) && r.time(&o.At) && r.key2(keyRecorded) && r.time(&o.Recorded)
}

// rest reads what comes behind the time of recording. The conditions, which
// would stand among it, are no part of a Brief.
func (r *briefReader) rest(o *domain.Brief) bool {
	var text string
	var number int64
	if r.key2(keySource) && !r.text(&text) ||
		r.key2(keyEpoch) && !r.time(&number) ||
		r.key2(keySeq) && !r.time(&number) ||
		r.key2(keyBy) && !r.text(&text) ||
		r.key2(keyReason) && !r.text(&text) ||
		r.key2(keyText) && !r.text(&text) ||
		r.key2(keyVerdict) && !r.text(&text) {
		return false
	}
	o.Within, o.HasWithin, o.Due, o.Message, o.Handler = 0, false, "", "", ""
	if r.key(keyData) && !r.data(o) {
		return false
	}
	o.Effects = 0
	if r.key2(keyEffects) {
		u, ok := r.number()
		if !ok || u&^uint64(domain.BriefEffects) != 0 {
			return false
		}
		o.Effects = domain.Effects(u)
	}
	if r.key2(keyCorrelation) && !r.text(&text) || r.key2(keyCausation) && !r.text(&text) || r.key2(keyTraceparent) && !r.text(&text) {
		return false
	}
	if r.key(keyWriter) {
		if _, ok := r.number(); !ok {
			return false
		}
	}
	if !r.key2(keyPrev) || len(r.b)-r.i < 18 || r.b[r.i] != 0xc4 || r.b[r.i+1] != 16 {
		return false
	}
	r.i += 18
	return true
}

// briefData is how many entries the data of a record may have that is read here.
const briefData = 8

// data reads the data of a fact: texts, numbers that are not negative, and
// nothing that is nested.
func (r *briefReader) data(o *domain.Brief) bool {
	if r.i >= len(r.b) || r.b[r.i]&0xf0 != 0x80 || r.b[r.i]&15 > briefData {
		return false
	}
	n := int(r.b[r.i] & 15)
	r.i++
	var names [briefData]string
	for i := range n {
		name := &names[i]
		if !r.text(name) {
			return false
		}
		for _, other := range names[:i] {
			if other == *name {
				return false
			}
		}
		if r.i >= len(r.b) {
			return false
		}
		if !isText(r.b[r.i]) {
			u, ok := r.number()
			if !ok || int64(u) < 0 {
				return false
			}
			if *name == "reply_within" {
				o.Within, o.HasWithin = int64(u), true
			}
			continue
		}
		var text string
		if !r.text(&text) {
			return false
		}
		switch *name {
		case "due":
			o.Due = text
		case "message":
			o.Message = text
		case "handler":
			o.Handler = text
		}
	}
	return true
}
