package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/musterhq/muster/eventlog/codec"
)

// boxKey is the record's key under which the encrypted part stands, the last one.
const boxKey = "\xa1z"

// The first byte of what is encrypted.
const (
	wholeRecord = 0 // all of the data, which was no record
	parts       = 1 // what the skeleton lacks of the record
)

const (
	nonceSize = 12
	tagSize   = 16
)

// errBox: a stored record is not one that this key has sealed.
var errBox = errors.New("the record cannot be decrypted with its account's key")

// seal returns what is stored for a record; prev is the hash of the account's
// record before it as that is stored. The same record after the same one gives
// the same bytes.
func (k *key) seal(record []byte, prev [16]byte) ([]byte, error) {
	e, err := codec.Decode(record)
	if err != nil {
		return k.sealWhole(record)
	}
	s := k.skeleton(&e)
	s.Prev = prev
	open, err := codec.Encode(&s)
	if err != nil {
		return nil, err
	}
	have, err := codec.Split(open, nil)
	if err != nil {
		return nil, err
	}
	want, err := codec.Split(record, nil)
	if err != nil {
		return nil, err
	}
	payload := difference(record, want, have)
	if again, err := merge(payload, have); err != nil || !bytes.Equal(again, record) {
		return nil, fmt.Errorf("%w: %v", errBox, err)
	}
	body := open[headSize(open):]
	return k.box(len(have)+1, body, payload, record)
}

// sealWhole is seal for bytes that are no record.
func (k *key) sealWhole(data []byte) ([]byte, error) {
	return k.box(1, nil, append([]byte{wholeRecord}, data...), data)
}

// box appends the encrypted payload to the entries that stay open, as a map of n.
func (k *key) box(n int, open, payload, plain []byte) ([]byte, error) {
	gcm, err := k.cipher()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(open)+len(payload)+nonceSize+tagSize+16)
	if n < 16 {
		out = append(out, 0x80|byte(n))
	} else {
		out = append(out, 0xde, byte(n>>8), byte(n))
	}
	out = append(out, open...)
	out = append(out, boxKey...)
	size := nonceSize + len(payload) + tagSize
	switch {
	case size < 1<<8:
		out = append(out, 0xc4, byte(size))
	case size < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0xc5), uint16(size))
	default:
		out = binary.BigEndian.AppendUint32(append(out, 0xc6), uint32(size))
	}
	nonce := k.nonce(open, plain)
	out = append(out, nonce[:]...)
	return gcm.Seal(out, nonce[:], payload, open), nil
}

// nonce is drawn from what is encrypted and what stands beside it, so no two
// different ones share it.
func (k *key) nonce(open, plain []byte) (n [nonceSize]byte) {
	m := hmac.New(sha256.New, k.secret[32:])
	m.Write(binary.BigEndian.AppendUint32([]byte{'n'}, uint32(len(open))))
	m.Write(open)
	m.Write(plain)
	var sum [sha256.Size]byte
	copy(n[:], m.Sum(sum[:0]))
	return n
}

func (k *key) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.secret[:32])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// open is the inverse of seal.
func (k *key) open(stored []byte) ([]byte, error) {
	entries, err := codec.Split(stored, make([][]byte, 0, 40))
	if err != nil {
		return nil, err
	}
	box, ok := lastBox(entries)
	if !ok {
		return nil, errBox
	}
	have := entries[:len(entries)-1]
	head := headSize(stored)
	body := stored[head : len(stored)-len(entries[len(entries)-1])]
	gcm, err := k.cipher()
	if err != nil {
		return nil, err
	}
	payload, err := gcm.Open(nil, box[:nonceSize], box[nonceSize:], body)
	if err != nil || len(payload) == 0 {
		return nil, errBox
	}
	if payload[0] == wholeRecord {
		return payload[1:], nil
	}
	return merge(payload, have)
}

// lastBox is the encrypted part of a stored record.
func lastBox(entries [][]byte) ([]byte, bool) {
	if len(entries) == 0 {
		return nil, false
	}
	b, ok := bytes.CutPrefix(entries[len(entries)-1], []byte(boxKey))
	if !ok || len(b) == 0 || b[0] < 0xc4 || b[0] > 0xc6 {
		return nil, false
	}
	skip := 1 + 1<<(b[0]-0xc4)
	if len(b) < skip+nonceSize+tagSize {
		return nil, false
	}
	return b[skip:], true
}

// Sealed says whether a stored record has an encrypted part.
func Sealed(stored []byte) bool {
	entries, err := codec.Split(stored, nil)
	if err != nil {
		return false
	}
	_, ok := lastBox(entries)
	return ok
}

// headSize is the size of a record's head, a map of less than 2^16 entries.
func headSize(record []byte) int {
	switch {
	case len(record) == 0:
		return 0
	case record[0] == 0xde:
		return 3
	}
	return 1
}

// difference is what must be known beside the skeleton's entries to make the
// record: which of the record's entries are given (a bit each), which of the
// skeleton's are used, and those that are given.
func difference(record []byte, want, have [][]byte) []byte {
	var given, used uint64
	var rest []byte
	next := 0
	for i, w := range want {
		found := -1
		for j := next; j < len(have); j++ {
			if bytes.Equal(have[j], w) {
				found = j
				break
			}
		}
		if found < 0 {
			given |= 1 << i
			rest = append(rest, w...)
			continue
		}
		used |= 1 << found
		next = found + 1
	}
	head := headSize(record)
	out := append(make([]byte, 0, 24+len(rest)), parts, byte(head))
	out = append(out, record[:head]...)
	out = binary.BigEndian.AppendUint64(out, given)
	out = binary.BigEndian.AppendUint64(out, used)
	return append(out, rest...)
}

// merge makes the record of a difference and the skeleton's entries.
func merge(payload []byte, have [][]byte) ([]byte, error) {
	if len(payload) < 2 || len(payload) < 2+int(payload[1])+16 {
		return nil, errBox
	}
	n := int(payload[1])
	head, rest := payload[2:2+n], payload[2+n+16:]
	given := binary.BigEndian.Uint64(payload[2+n:])
	used := binary.BigEndian.Uint64(payload[2+n+8:])
	count := 0
	switch n {
	case 1:
		count = int(head[0] & 15)
	case 3:
		count = int(binary.BigEndian.Uint16(head[1:]))
	}
	out := append(make([]byte, 0, len(rest)+256), head...)
	fresh, err := codec.SplitEntries(rest, bits.OnesCount64(given), nil)
	if err != nil {
		return nil, err
	}
	j := 0
	for i := range count {
		if given&(1<<i) != 0 {
			if len(fresh) == 0 {
				return nil, errBox
			}
			out, fresh = append(out, fresh[0]...), fresh[1:]
			continue
		}
		for j < len(have) && used&(1<<j) == 0 {
			j++
		}
		if j == len(have) {
			return nil, errBox
		}
		out = append(out, have[j]...)
		j++
	}
	return out, nil
}
