package blockscan

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"

	"github.com/musterhq/muster/eventlog"
)

// blockBytes is about the size of the server's own blocks.
const blockBytes = 8 << 20

// Writer writes records as the block files of a stream that no server has
// open. Sequences may have gaps: the server takes what is between for deleted.
type Writer struct {
	msgs      string
	partition int

	number int
	size   int
	file   *os.File
	buf    *bufio.Writer
	check  *checker
	rec    []byte
	last   uint64
}

// NewWriter writes to the stream's folder msgs, which must be there and empty.
func NewWriter(msgs string, partition int) *Writer {
	return &Writer{msgs: msgs, partition: partition}
}

// Add writes one record; sequences must rise.
func (w *Writer) Add(s Stored) error {
	if s.Seq <= w.last {
		return fmt.Errorf("write block: sequence %d comes behind %d", s.Seq, w.last)
	}
	if w.file == nil || w.size >= blockBytes {
		if err := w.next(); err != nil {
			return fmt.Errorf("write block: %w", err)
		}
	}
	w.rec = w.check.appendRecord(w.rec[:0], eventlog.Subject(w.partition, s.Account), s)
	if _, err := w.buf.Write(w.rec); err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	w.size, w.last = w.size+len(w.rec), s.Seq
	return nil
}

// next begins a block.
func (w *Writer) next() (err error) {
	if err := w.Close(); err != nil {
		return err
	}
	w.number++
	w.size = 0
	if w.check, err = newChecker(eventlog.StreamName(w.partition), w.number); err != nil {
		return err
	}
	path := filepath.Join(w.msgs, fmt.Sprintf("%d.blk", w.number))
	if w.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640); err != nil {
		return err
	}
	w.buf = bufio.NewWriterSize(w.file, 1<<20)
	return nil
}

// Close ends the last block and syncs it.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.buf.Flush(), w.file.Sync(), w.file.Close())
	w.file = nil
	return err
}

// appendRecord appends a record in the block's form.
func (c *checker) appendRecord(b []byte, subject string, s Stored) []byte {
	size := headSize + len(subject) + len(s.Data) + sumSize
	length := uint32(size)
	if s.Header != nil {
		size += 4 + len(s.Header)
		length = uint32(size) | hasHeader
	}
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, length)
	b = binary.LittleEndian.AppendUint64(b, s.Seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Time))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(b, subject...)
	if s.Header != nil {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Header)))
		b = append(b, s.Header...)
	}
	b = append(b, s.Data...)
	c.hash.Reset()
	_, _ = c.hash.Write(b[at+4 : at+20]) // a hash's Write never fails
	_, _ = c.hash.Write([]byte(subject))
	_, _ = c.hash.Write(s.Header)
	_, _ = c.hash.Write(s.Data)
	return c.hash.Sum(b)
}

// MetaSum is the sum that the server keeps in a file of its own beside the one
// with a stream's configuration.
func MetaSum(stream string, meta []byte) (string, error) {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		return "", fmt.Errorf("sum of the configuration of %s: %w", stream, err)
	}
	_, _ = h.Write(meta) // a hash's Write never fails
	return hex.EncodeToString(h.Sum(nil)), nil
}
