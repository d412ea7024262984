package blockscan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
)

// A record in a block, little-endian:
//
//	length 4 | sequence 8 | time 8 | subject length 2 | subject | [header length 4 | header] | body | checksum 8
//
// The length's high bit says that there is a header. The checksum is
// HighwayHash-64 over sequence, time, subject, header and body, with a key that
// is SHA-256 of "<stream>-<block number>".
const (
	headSize   = 22
	sumSize    = 8
	hasHeader  = 1 << 31
	erased     = 1 << 63 // in the sequence: a place without a record
	tombstone  = 1 << 62 // in the sequence: another sequence was deleted
	maxRecord  = 32 << 20
	maxFlipped = 16 << 10 // longest record in which a flipped bit is searched for
)

// headerEnd ends every header. The header's length is not under the checksum,
// so this is what shows that it is right.
var headerEnd = []byte("\r\n\r\n")

// record is one parsed record; it points into the block.
type record struct {
	seq     uint64
	subject []byte
	size    int
}

// place reports whether it holds a place or deletes another record, so that
// it is no record of an account.
func (r record) place() bool { return r.seq&(erased|tombstone) != 0 }

// checker verifies records of one block.
type checker struct {
	hash hash.Hash64
	sum  [sumSize]byte
}

func newChecker(stream string, number int) (*checker, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, number))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, fmt.Errorf("checksum of block %d: %w", number, err)
	}
	return &checker{hash: h}, nil
}

// bounds reads the length fields of the record at the start of b and checks
// that they fit each other and b.
func bounds(b []byte) (size, subject int, header, ok bool) {
	if len(b) < headSize+sumSize {
		return 0, 0, false, false
	}
	l := binary.LittleEndian.Uint32(b)
	size, header = int(l&^hasHeader), l&hasHeader != 0
	subject = int(binary.LittleEndian.Uint16(b[20:]))
	used := headSize + subject + sumSize
	if header {
		used += 4
	}
	return size, subject, header, size >= used && size <= len(b) && size <= maxRecord
}

// parse reads the record at the start of b and verifies it.
func (c *checker) parse(b []byte) (record, bool) {
	size, subject, header, ok := bounds(b)
	if !ok {
		return record{}, false
	}
	rest := b[headSize+subject : size-sumSize]
	if header {
		n := int(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; n > len(rest) || !bytes.HasSuffix(rest[:n], headerEnd) {
			return record{}, false
		}
	}
	c.hash.Reset()
	_, _ = c.hash.Write(b[4:20]) // a hash's Write never fails
	_, _ = c.hash.Write(b[headSize : headSize+subject])
	_, _ = c.hash.Write(rest)
	if !bytes.Equal(c.hash.Sum(c.sum[:0]), b[size-sumSize:size]) {
		return record{}, false
	}
	return record{seq: binary.LittleEndian.Uint64(b[4:]), subject: b[headSize : headSize+subject], size: size}, true
}

// flipped looks for the one bit whose flip makes a whole record of what stands
// at the start of b. It returns that record with a subject of its own.
func (c *checker) flipped(b []byte) (record, bool) {
	if len(b) < headSize+sumSize {
		return record{}, false
	}
	end := headSize
	if size, _, _, ok := bounds(b); ok && size <= maxFlipped {
		end = size
	}
	for i := range end {
		for bit := range 8 {
			b[i] ^= 1 << bit
			r, ok := c.parse(b)
			if ok {
				r.subject = bytes.Clone(r.subject)
			}
			b[i] ^= 1 << bit
			if ok {
				return r, true
			}
		}
	}
	return record{}, false
}
