package snapshot_test

import (
	"encoding/binary"
	"hash/crc32"
)

// newerFormat makes a snapshot of format version 2 with a right header
// checksum, as a newer Muster would.
func newerFormat(file []byte) []byte {
	binary.BigEndian.PutUint16(file[8:], 2)
	end := 12 + int(binary.BigEndian.Uint16(file[10:]))
	binary.BigEndian.PutUint32(file[end:], crc32.Checksum(file[:end], crc32.MakeTable(crc32.Castagnoli)))
	return file
}
