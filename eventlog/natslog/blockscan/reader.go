package blockscan

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/musterhq/muster/eventlog"
)

// Reader reads single records out of the blocks of a store while the server
// writes them, at the price of some kilobytes of a file each: the server itself
// would read a whole block, and hold its stream's lock meanwhile.
//
// Blocks only grow. Of each that was read from it remembers where in it every so
// many bytes a record begins, which takes a byte of memory for some 5000 on disk.
// A record is given only if it matches its checksum; whoever gets none asks the
// server. Methods may be called from many goroutines.
type Reader struct {
	cfg   Config
	parts [eventlog.MaxPartitions]partReader
}

// ErrNotRead is wrapped when the reader cannot give a record: it is not there, or
// not as it must be.
var ErrNotRead = errors.New("the record cannot be read from its block")

// markEvery is how many bytes lie between two remembered places of a block.
const markEvery = 64 << 10

// window is how much of a block is read at once.
const window = 128 << 10

// partReader reads one partition.
type partReader struct {
	mu     sync.Mutex
	blocks []*knownBlock // by number
	buf    []byte        // used again
}

// knownBlock is a block and the places in it that are known.
type knownBlock struct {
	Block
	first, last uint64 // the first sequence, and the last one up to scanned; 0: none yet
	scanned     int64  // so many bytes of it have been looked at
	marks       []mark // rising
}

// mark is where a record begins.
type mark struct {
	seq uint64
	off int64
}

// NewReader reads the store of a server that has its files in a folder.
func NewReader(storeDir string) *Reader { return &Reader{cfg: Config{StoreDir: storeDir}} }

// Record returns the record of a partition with a sequence. The error wraps
// ErrNotRead.
func (r *Reader) Record(partition int, seq uint64) (Stored, error) {
	p := &r.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.block(filepath.Join(streamDir(r.cfg, partition), "msgs"), seq)
	if err == nil {
		var s Stored
		if s, err = p.record(b, partition, seq); err == nil {
			return s, nil
		}
	}
	return Stored{}, fmt.Errorf("sequence %d of partition %d: %w: %w", seq, partition, ErrNotRead, err)
}

var (
	errNoBlock = errors.New("no block holds it")
	errLayout  = errors.New("the block is not as it must be")
)

// block returns the block that holds a sequence.
func (p *partReader) block(msgs string, seq uint64) (*knownBlock, error) {
	b := p.begun(seq)
	if b != nil && seq > b.last {
		if err := p.scan(b); err != nil {
			return nil, err
		}
	}
	if b == nil || seq > b.last && b == p.blocks[len(p.blocks)-1] { // there may be new ones
		if err := p.list(msgs); err != nil {
			return nil, err
		}
		if b = p.begun(seq); b != nil && seq > b.last {
			if err := p.scan(b); err != nil {
				return nil, err
			}
		}
	}
	if b == nil || seq > b.last {
		return nil, errNoBlock
	}
	return b, nil
}

// begun returns the last known block that begins at a sequence or before it.
func (p *partReader) begun(seq uint64) *knownBlock {
	for _, b := range slices.Backward(p.blocks) {
		if b.first != 0 && b.first <= seq {
			return b
		}
	}
	return nil
}

// list finds the blocks that there are, and with which sequence each begins.
func (p *partReader) list(msgs string) error {
	found, err := Blocks(msgs)
	if err != nil {
		return err
	}
	for _, f := range found {
		at, known := slices.BinarySearchFunc(p.blocks, f.Number, func(b *knownBlock, n int) int { return b.Number - n })
		if !known {
			p.blocks = slices.Insert(p.blocks, at, &knownBlock{Block: f})
		}
		if b := p.blocks[at]; b.first == 0 {
			if err := p.begin(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin finds a block's first sequence.
func (p *partReader) begin(b *knownBlock) error {
	v, err := p.open(b)
	if err != nil {
		return err
	}
	if head := v.at(0, len(packed)); unreadable(b.Path, head) {
		return errors.Join(ErrUnreadable, v.close())
	}
	err = v.each(0, func(off int64, seq uint64) bool {
		b.first, b.last = seq, seq
		b.marks = append(b.marks, mark{seq, off})
		return false
	})
	return errors.Join(err, v.close())
}

// scan looks at what was written to a block since.
func (p *partReader) scan(b *knownBlock) error {
	v, err := p.open(b)
	if err != nil {
		return err
	}
	err = v.each(b.scanned, func(off int64, seq uint64) bool {
		b.last = seq
		if off >= b.marks[len(b.marks)-1].off+markEvery {
			b.marks = append(b.marks, mark{seq, off})
		}
		return true
	})
	b.scanned = v.end
	return errors.Join(err, v.close())
}

// record reads a record that lies between two marks.
func (p *partReader) record(b *knownBlock, partition int, seq uint64) (s Stored, err error) {
	v, err := p.open(b)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	at, exact := slices.BinarySearchFunc(b.marks, seq, func(m mark, seq uint64) int { return cmp.Compare(m.seq, seq) })
	if !exact {
		at--
	}
	found := int64(-1)
	err = v.each(b.marks[at].off, func(off int64, n uint64) bool {
		if n == seq {
			found = off
		}
		return n < seq
	})
	if err != nil {
		return s, err
	}
	if found < 0 {
		return s, errNoBlock
	}
	c, err := newChecker(eventlog.StreamName(partition), b.Number)
	if err != nil {
		return s, err
	}
	data := v.at(found, int(binary.LittleEndian.Uint32(v.at(found, 4))&^hasHeader))
	rec, ok := c.parse(data)
	if !ok || rec.seq != seq {
		return s, errLayout
	}
	_, account, err := eventlog.ParseSubject(string(rec.subject))
	if err != nil {
		return s, err
	}
	s = apart(data[:rec.size], rec)
	s.Account = account
	return s, nil
}

// view reads a block file a window at a time.
type view struct {
	p   *partReader
	f   *os.File
	off int64  // where buf begins in the file
	buf []byte // what is in the window
	end int64  // behind the last whole record that each has seen
}

func (p *partReader) open(b *knownBlock) (*view, error) {
	f, err := os.Open(b.Path)
	if err != nil {
		return nil, err
	}
	return &view{p: p, f: f}, nil
}

func (v *view) close() error { return v.f.Close() }

// at returns n bytes of the file from an offset; nil when it does not have them.
// They stay as they are until the next call.
func (v *view) at(off int64, n int) []byte {
	if from := off - v.off; from >= 0 && from+int64(n) <= int64(len(v.buf)) {
		return v.buf[from:][:n]
	}
	if size := max(n, window); cap(v.p.buf) < size {
		v.p.buf = make([]byte, size)
	}
	v.p.buf = v.p.buf[:cap(v.p.buf)]
	got, err := v.f.ReadAt(v.p.buf, off)
	if err != nil && !errors.Is(err, io.EOF) {
		got = 0
	}
	v.off, v.buf = off, v.p.buf[:got]
	if got < n {
		return nil
	}
	return v.buf[:n]
}

// each calls with the place and sequence of each whole record from an offset on,
// until it returns false. The last one may not be written to its end yet.
func (v *view) each(off int64, with func(off int64, seq uint64) bool) error {
	for v.end = off; ; off = v.end {
		head := v.at(off, 12)
		if head == nil {
			return nil
		}
		size, seq := int(binary.LittleEndian.Uint32(head)&^hasHeader), binary.LittleEndian.Uint64(head[4:])
		if size < headSize+sumSize || size > maxRecord {
			return errLayout
		}
		if v.at(off+int64(size)-1, 1) == nil {
			return nil
		}
		v.end = off + int64(size)
		if seq&(erased|tombstone) == 0 && !with(off, seq) {
			return nil
		}
	}
}
