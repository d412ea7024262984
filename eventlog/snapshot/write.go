package snapshot

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"
)

// Entry is what a snapshot keeps of one account.
type Entry struct {
	Account string
	Seq     uint64   // sequence of its last record in the partition's stream
	Hash    [16]byte // of that record
	Damage  string   // what is wrong with its history, in words; "" = nothing
	State   []byte   // its fold
}

// Write writes a snapshot of h.Count entries. It is not done with an entry's
// State before it asks for the next one. It is an error, and what was written
// is of no use, when another number of entries comes: a source that fails can
// simply stop.
func Write(w io.Writer, h Header, entries iter.Seq[Entry]) error {
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	head, err := h.marshal()
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if err := writeEntries(out, h.Count, entries); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

func writeEntries(out io.Writer, count int, entries iter.Seq[Entry]) error {
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(z, 64<<10)
	n := 0
	for e := range entries {
		n++
		if err = writeEntry(buf, e); err != nil {
			break
		}
	}
	if err == nil {
		err = buf.Flush()
	}
	if err2 := z.Close(); err == nil {
		err = err2
	}
	if err == nil && n != count {
		err = fmt.Errorf("%d entries came, and %d were announced", n, count)
	}
	return err
}

func writeEntry(w *bufio.Writer, e Entry) error {
	b := binary.AppendUvarint(w.AvailableBuffer(), uint64(len(e.Account)))
	b = append(b, e.Account...)
	b = binary.AppendUvarint(b, e.Seq)
	b = append(b, e.Hash[:]...)
	b = binary.AppendUvarint(b, uint64(len(e.Damage)))
	b = append(b, e.Damage...)
	b = binary.AppendUvarint(b, uint64(len(e.State)))
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err := w.Write(e.State)
	return err
}
