package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// FormatVersion is the version of the file format that is written, and the
// highest one that is read.
const FormatVersion = 1

// Header says what a snapshot holds.
type Header struct {
	Fold        uint32 // version of the fold that made the states
	Partition   int
	Partitions  int    // into how many the accounts are divided
	Last        uint64 // sequence of the last record folded into the states
	Incarnation string // of the partition's stream
	Count       int    // number of entries
	Time        int64  // when it was taken, unix ns
}

// Want is what a snapshot must be to be of use.
type Want struct {
	Fold        uint32
	Partition   int
	Partitions  int
	Incarnation string
}

// check reports why a snapshot with this header is not what is wanted, or nil.
func (w Want) check(h Header) error {
	switch {
	case h.Partition != w.Partition || h.Partitions != w.Partitions:
		return unusable(OtherPartition, "it is of partition %d of %d, not %d of %d", h.Partition, h.Partitions, w.Partition, w.Partitions)
	case h.Incarnation != w.Incarnation:
		return unusable(OtherStream, "it is of stream incarnation %q, not %q", h.Incarnation, w.Incarnation)
	case h.Fold != w.Fold:
		return unusable(OtherFold, "its states are of fold version %d, not %d", h.Fold, w.Fold)
	}
	return nil
}

const (
	magic       = "MUSTSNAP"
	prefixSize  = len(magic) + 2 + 2
	headerFixed = 4 + 4 + 4 + 8 + 8 + 8
	crcSize     = 4
	sumSize     = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// marshal returns everything of the file that stands before the entries.
func (h Header) marshal() ([]byte, error) {
	size := headerFixed + len(h.Incarnation)
	if size > math.MaxUint16 || h.Partition < 0 || h.Partitions < 0 || h.Count < 0 {
		return nil, fmt.Errorf("snapshot header %+v cannot be written", h)
	}
	b := append(make([]byte, 0, prefixSize+size+crcSize), magic...)
	b = binary.BigEndian.AppendUint16(b, FormatVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	b = binary.BigEndian.AppendUint32(b, h.Fold)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Partition))
	b = binary.BigEndian.AppendUint32(b, uint32(h.Partitions))
	b = binary.BigEndian.AppendUint64(b, h.Last)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Count))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Time))
	b = append(b, h.Incarnation...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// readHeader reads everything that stands before the entries.
func readHeader(r io.Reader) (Header, error) {
	prefix := make([]byte, prefixSize)
	if _, err := io.ReadFull(r, prefix); err != nil {
		return Header{}, asError("the beginning is missing", err)
	}
	if string(prefix[:len(magic)]) != magic {
		return Header{}, unusable(Damaged, "it does not begin with %q", magic)
	}
	rest := make([]byte, int(binary.BigEndian.Uint16(prefix[len(magic)+2:]))+crcSize)
	if _, err := io.ReadFull(r, rest); err != nil {
		return Header{}, asError("the header is cut off", err)
	}
	body, sum := rest[:len(rest)-crcSize], rest[len(rest)-crcSize:]
	if crc32.Update(crc32.Checksum(prefix, castagnoli), castagnoli, body) != binary.BigEndian.Uint32(sum) {
		return Header{}, unusable(Damaged, "the header does not have its checksum")
	}
	if v := binary.BigEndian.Uint16(prefix[len(magic):]); v != FormatVersion {
		return Header{}, unusable(NewerFormat, "it has format version %d, and this Muster knows %d", v, FormatVersion)
	}
	return unmarshal(body)
}

func unmarshal(b []byte) (Header, error) {
	if len(b) < headerFixed {
		return Header{}, unusable(Damaged, "the header has %d bytes", len(b))
	}
	return Header{
		Fold:        binary.BigEndian.Uint32(b),
		Partition:   int(binary.BigEndian.Uint32(b[4:])),
		Partitions:  int(binary.BigEndian.Uint32(b[8:])),
		Last:        binary.BigEndian.Uint64(b[12:]),
		Count:       int(binary.BigEndian.Uint64(b[20:]) & math.MaxInt64),
		Time:        int64(binary.BigEndian.Uint64(b[28:])),
		Incarnation: string(b[headerFixed:]),
	}, nil
}
