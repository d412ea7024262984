package blockscan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/musterhq/muster/eventlog"
)

// Stored is one record as it stands in a block.
type Stored struct {
	Seq     uint64
	Time    int64 // when it was stored, unix ns
	Account string
	Header  []byte // nil: it has none
	Data    []byte
}

// Block is one block file of a partition.
type Block struct {
	Path   string
	Number int
}

// ErrUnreadable is wrapped for a block that is encrypted or compressed.
var ErrUnreadable = errors.New("the block is encrypted or compressed")

// Blocks lists the block files in a stream's folder msgs, oldest first. A folder
// that is not there has none.
func Blocks(msgs string) ([]Block, error) {
	numbers, err := findBlocks(msgs)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list blocks: %w", err)
	}
	blocks := make([]Block, len(numbers))
	for i, n := range numbers {
		blocks[i] = Block{filepath.Join(msgs, fmt.Sprintf("%d.blk", n)), n}
	}
	return blocks, nil
}

// Copies lists the copies of a partition's blocks that Scan has put into a
// quarantine folder.
func Copies(folder string, partition int) ([]Block, error) {
	files, err := filepath.Glob(filepath.Join(folder, eventlog.StreamName(partition)+"-*-*.blk"))
	if err != nil {
		return nil, fmt.Errorf("list copies of blocks: %w", err)
	}
	var blocks []Block
	for _, path := range files {
		b := Block{Path: path}
		var sum string
		if _, err := fmt.Sscanf(filepath.Base(path), eventlog.StreamName(partition)+"-%d-%s", &b.Number, &sum); err == nil {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// Salvage gives all records of one block that match their checksum, in the order
// in which they stand there, those behind damage as well. What it gives may be
// kept. whole says that the block holds nothing else.
func Salvage(b Block, partition, partitions int, use func(Stored) error) (whole bool, err error) {
	s := scanner{partition: partition, partitions: partitions}
	data, err := s.load(b.Path)
	if err != nil {
		return false, fmt.Errorf("salvage block: %w", err)
	}
	if unreadable(b.Path, data) {
		return false, fmt.Errorf("salvage block %s: %w", b.Path, ErrUnreadable)
	}
	c, err := newChecker(eventlog.StreamName(partition), b.Number)
	if err != nil {
		return false, err
	}
	whole = true
	for off := 0; off < len(data); {
		r, ok := c.parse(data[off:])
		if !ok {
			whole = false
			if off = s.find(c, data, off+1); off < 0 {
				break
			}
			continue
		}
		if !r.place() {
			if err := use(s.stored(data[off:off+r.size], r)); err != nil {
				return false, err
			}
		}
		off += r.size
	}
	return whole, nil
}

// stored is a record that matches its checksum.
func (s *scanner) stored(b []byte, r record) Stored {
	out := apart(b, r)
	out.Account = s.account(r.subject)
	return out
}

// apart takes a record apart, but for the account.
func apart(b []byte, r record) Stored {
	out := Stored{Seq: r.seq, Time: int64(binary.LittleEndian.Uint64(b[12:]))}
	rest := b[headSize+len(r.subject) : len(b)-sumSize]
	if binary.LittleEndian.Uint32(b)&hasHeader != 0 {
		n := binary.LittleEndian.Uint32(rest)
		out.Header, rest = bytes.Clone(rest[4:4+n]), rest[4+n:]
	}
	out.Data = bytes.Clone(rest)
	return out
}
