package codec

import "encoding/binary"

// The limits of an interner: how many different texts it keeps, and how long
// one may be. Whatever goes beyond is copied each time, so a publisher that
// invents names cannot make it grow.
const (
	internMax    = 1 << 16
	internLength = 128
)

// interner gives equal texts the same string, so that the names which come in
// every record (states, triggers, machines, sources) are held in memory once.
// It keeps up to 65 536 texts. It must not be used by two goroutines at a time.
type interner struct {
	recent [1024]string // by hash; most look-ups end here
	all    map[string]string
}

// newInterner returns an empty interner.
func newInterner() *interner { return &interner{all: map[string]string{}} }

// intern returns b's text. It does not keep b.
func (in *interner) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	slot := &in.recent[textSlot(b)]
	if *slot == string(b) {
		return *slot
	}
	if len(b) > internLength {
		return string(b)
	}
	s, ok := in.all[string(b)]
	if !ok {
		s = string(b)
		if len(in.all) < internMax {
			in.all[s] = s
		}
	}
	*slot = s
	return s
}

// textSlot hashes the length, the first and the last eight bytes.
func textSlot(b []byte) uint64 {
	var x, y uint64
	switch n := len(b); {
	case n >= 8:
		x, y = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		x, y = uint64(b[0])|uint64(b[n-1])<<8, uint64(b[n/2])
	}
	const odd = 0x9e3779b97f4a7c15
	return ((x+uint64(len(b)))*odd ^ y*0xc2b2ae3d27d4eb4f) * odd >> 54
}
