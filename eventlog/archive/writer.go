package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"github.com/musterhq/muster/eventlog"
)

// Limits say how large the parts of an archive get. Zero values are the
// defaults.
type Limits struct {
	FrameRecords   int   // most records of a frame; default 8192
	FrameBytes     int   // about as many bytes of records; default 1 MiB
	SegmentRecords int   // about as many records of a segment; default 1 000 000
	SegmentBytes   int64 // about as many bytes in its file; default 64 MiB
}

func (l Limits) withDefaults() Limits {
	if l.FrameRecords <= 0 {
		l.FrameRecords = 8192
	}
	if l.FrameBytes <= 0 {
		l.FrameBytes = 1 << 20
	}
	if l.SegmentRecords <= 0 {
		l.SegmentRecords = 1_000_000
	}
	if l.SegmentBytes <= 0 {
		l.SegmentBytes = 64 << 20
	}
	return l
}

// Errors of a Writer.
var (
	// ErrLocked: another process writes the archive.
	ErrLocked = errors.New("another process writes this archive")
	// ErrOther: the archive is of another log.
	ErrOther = errors.New("the archive is of another log")
	// ErrOrder: a record does not come behind the last one.
	ErrOrder = errors.New("the record does not come behind the archive's last one")
)

// Writer adds records to an archive. Different partitions may be written by
// different goroutines; calls for one partition must not overlap.
type Writer struct {
	dir    string
	limits Limits
	lock   *flock.Flock

	mu       sync.Mutex // the manifest
	manifest Manifest

	parts []*part
}

// Open opens an archive for writing, or creates it. incarnations are those of
// the partitions' streams; an archive of others is refused with ErrOther. What a
// writer that was killed has left half done is put right.
func Open(dir string, incarnations []string, limits Limits) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	w := &Writer{dir: dir, limits: limits.withDefaults(), lock: flock.New(filepath.Join(dir, lockFile))}
	ok, err := w.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("open archive %s: lock: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("open archive %s: %w", dir, ErrLocked)
	}
	if err := w.load(incarnations); err != nil {
		_ = w.lock.Unlock()
		return nil, fmt.Errorf("open archive %s: %w", dir, err)
	}
	return w, nil
}

func (w *Writer) load(incarnations []string) error {
	m, err := ReadManifest(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		m = &Manifest{Format: FormatVersion, Hash: eventlog.HashName}
		for p, inc := range incarnations {
			m.Partitions = append(m.Partitions, Partition{Partition: p, Incarnation: inc, Segments: []SegmentInfo{}})
		}
		err = nil
	}
	if err != nil {
		return err
	}
	if len(m.Partitions) != len(incarnations) {
		return fmt.Errorf("%w: it has %d partitions, the log has %d", ErrOther, len(m.Partitions), len(incarnations))
	}
	w.manifest = *m
	for p, inc := range incarnations {
		if have := m.Partitions[p].Incarnation; have != inc {
			return fmt.Errorf("%w: partition %d is of a stream that was created at another time (%s, now %s)", ErrOther, p, have, inc)
		}
		pt, err := w.openPart(p)
		if err != nil {
			return err
		}
		w.parts = append(w.parts, pt)
	}
	return w.save()
}

// save writes the manifest.
func (w *Writer) save() error {
	b, err := w.manifest.encode()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(w.dir, manifestFile), b); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// change changes a partition's entry of the manifest and writes it.
func (w *Writer) change(partition int, f func(*Partition)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.manifest.Partitions[partition])
	return w.save()
}

// Last is the sequence of the last record that was added to a partition, written
// or still gathered; 0: none was.
func (w *Writer) Last(partition int) uint64 { return w.parts[partition].last }

// Append adds records of a partition, in the order of their sequences. They are
// written when a frame is full, or by Flush.
func (w *Writer) Append(partition int, records ...eventlog.Record) error {
	p := w.parts[partition]
	for i := range records {
		if err := p.add(&records[i]); err != nil {
			return fmt.Errorf("archive partition %d: %w", partition, err)
		}
	}
	return nil
}

// Flush writes what was gathered of a partition, syncs it, and lets the manifest
// name it. When it returns nil, all that was appended survives a power cut.
func (w *Writer) Flush(partition int) error {
	if err := w.parts[partition].checkpoint(); err != nil {
		return fmt.Errorf("archive partition %d: %w", partition, err)
	}
	return nil
}

// Seal ends the open segment of a partition, if there is one.
func (w *Writer) Seal(partition int) error {
	if err := w.parts[partition].seal(); err != nil {
		return fmt.Errorf("archive partition %d: %w", partition, err)
	}
	return nil
}

// Close writes and syncs what was gathered and gives the archive free. Open
// segments stay open, for the next writer to go on with.
func (w *Writer) Close() error {
	var errs []error
	for i, p := range w.parts {
		errs = append(errs, w.Flush(i), p.close())
	}
	return errors.Join(append(errs, w.lock.Unlock())...)
}

// Manifest is a copy of the manifest as it was last written.
func (w *Writer) Manifest() Manifest {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.manifest
	m.Partitions = append([]Partition(nil), m.Partitions...)
	return m
}

// readAll yields an open segment's whole frames and where the last one ends.
func readAll(f *os.File, use func(Frame, *Scan, *Block)) (Header, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return Header{}, 0, err
	}
	h, at, err := readHeader(f, info.Size())
	if err != nil {
		return Header{}, 0, &Fault{File: f.Name(), What: err.Error()}
	}
	s := &Segment{Header: h, Path: f.Name(), f: f, size: info.Size()}
	if s.Frames, err = walk(f, at, s.size); err != nil {
		return h, 0, err
	}
	sc := s.Scan()
	defer sc.Close()
	var b Block
	for _, fr := range s.Frames {
		var fault *Fault
		switch err := sc.Next(&b); {
		case errors.As(err, &fault) || err == io.EOF:
			return h, at, nil // torn: what follows is cut off
		case err != nil:
			return h, 0, err
		}
		use(fr, sc, &b)
		at = fr.Offset + fr.Length
	}
	return h, at, nil
}
