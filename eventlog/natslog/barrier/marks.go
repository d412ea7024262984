package barrier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/musterhq/muster/eventlog"
)

// markSize is one partition's mark in the file: the sequence and its
// complement, so that a torn one is no mark.
const markSize = 16

// marks is the file of the highest acknowledged sequences.
type marks struct {
	file *os.File
	mu   sync.Mutex
	high [eventlog.MaxPartitions]uint64
}

func openMarks(path string) (*marks, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	m := &marks{file: file}
	if m.high, err = readMarks(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return m, nil
}

// ReadMarks returns the highest acknowledged sequence of each partition, 0
// where none is known. No file: no marks.
func ReadMarks(path string) ([eventlog.MaxPartitions]uint64, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return [eventlog.MaxPartitions]uint64{}, nil
	}
	if err != nil {
		return [eventlog.MaxPartitions]uint64{}, fmt.Errorf("read marks: %w", err)
	}
	high, err := readMarks(file)
	return high, errors.Join(err, file.Close())
}

func readMarks(r io.Reader) (high [eventlog.MaxPartitions]uint64, err error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(len(high)*markSize)))
	if err != nil {
		return high, fmt.Errorf("read marks: %w", err)
	}
	for p := range high {
		if len(data) < (p+1)*markSize {
			break
		}
		seq, check := binary.LittleEndian.Uint64(data[p*markSize:]), binary.LittleEndian.Uint64(data[p*markSize+8:])
		if seq == ^check {
			high[p] = seq
		}
	}
	return high, nil
}

// raise writes a partition's mark if it is higher than the one that is there.
// It is not synced: it must only never be ahead of the records, and those are
// on disk by now.
func (m *marks) raise(partition int, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq <= m.high[partition] {
		return nil
	}
	var buf [markSize]byte
	binary.LittleEndian.PutUint64(buf[:], seq)
	binary.LittleEndian.PutUint64(buf[8:], ^seq)
	if _, err := m.file.WriteAt(buf[:], int64(partition)*markSize); err != nil {
		return fmt.Errorf("write mark: %w", err)
	}
	m.high[partition] = seq
	return nil
}

func (m *marks) close() error { return m.file.Close() }
