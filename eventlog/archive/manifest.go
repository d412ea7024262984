package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/musterhq/muster/eventlog"
)

const (
	manifestFile = "manifest.json"
	lockFile     = "lock"
	sealedExt    = ".seg"
	openExt      = ".open"
)

// FormatVersion is the version of the format that is written, and the highest
// one that is read.
const FormatVersion = 1

// Manifest says what an archive holds.
type Manifest struct {
	Format     int         `json:"format"` // FormatVersion
	Hash       string      `json:"hash"`   // what places an account: eventlog.HashName
	Partitions []Partition `json:"partitions"`
}

// Partition is what an archive holds of one partition.
type Partition struct {
	Partition   int           `json:"partition"`
	Incarnation string        `json:"incarnation"` // of the stream
	Segments    []SegmentInfo `json:"segments"`
	// Open is how far the open segment was known to be on disk when the manifest
	// was written. It may hold more by now, never less.
	Open *OpenInfo `json:"open,omitempty"`
}

// SegmentInfo is one sealed segment.
type SegmentInfo struct {
	File    string `json:"file"` // from the archive's folder, with slashes
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Records int    `json:"records"`
	Low     int64  `json:"low"`  // lowest time, unix ns
	High    int64  `json:"high"` // highest
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// OpenInfo is a mark in an open segment.
type OpenInfo struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Last    uint64 `json:"last"`
	Records int    `json:"records"`
}

// Last is the last sequence of the sealed segments; 0: there are none.
func (p *Partition) Last() uint64 {
	if n := len(p.Segments); n > 0 {
		return p.Segments[n-1].Last
	}
	return 0
}

// previous is what the next segment names as the one before it.
func (p *Partition) previous() (sum [sha256.Size]byte) {
	if n := len(p.Segments); n > 0 {
		_, _ = hex.Decode(sum[:], []byte(p.Segments[n-1].SHA256)) // checked when it was read or made
	}
	return sum
}

const (
	sumPrefix = `{"sha256":"`
	sumSuffix = `","manifest":`
)

// encode writes the manifest with its sum.
func (m *Manifest) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	out := append([]byte(sumPrefix), hex.EncodeToString(sum[:])...)
	out = append(append(out, sumSuffix...), body...)
	return append(out, "}\n"...), nil
}

func parseManifest(b []byte) (*Manifest, error) {
	rest, ok := bytes.CutPrefix(b, []byte(sumPrefix))
	if !ok || len(rest) < 2*sha256.Size {
		return nil, errors.New("it is no manifest of this format")
	}
	sum, rest := rest[:2*sha256.Size], rest[2*sha256.Size:]
	rest, ok1 := bytes.CutPrefix(rest, []byte(sumSuffix))
	body, ok2 := bytes.CutSuffix(rest, []byte("}\n"))
	want := sha256.Sum256(body)
	if !ok1 || !ok2 || hex.EncodeToString(want[:]) != string(sum) {
		return nil, errors.New("its sum is wrong: it was changed or cut off")
	}
	m := &Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check refuses what no writer writes.
func (m *Manifest) check() error {
	if m.Format != FormatVersion {
		return fmt.Errorf("its format is %d; this program reads %d", m.Format, FormatVersion)
	}
	if m.Hash != eventlog.HashName || len(m.Partitions) < 1 || len(m.Partitions) > eventlog.MaxPartitions {
		return errors.New("it is of another kind of log")
	}
	for i := range m.Partitions {
		p := &m.Partitions[i]
		if p.Partition != i {
			return fmt.Errorf("partition %d stands in place %d", p.Partition, i)
		}
		last := uint64(0)
		for _, s := range p.Segments {
			if s.First <= last || s.Last < s.First || len(s.SHA256) != 2*sha256.Size || s.File != segmentName(i, s.First, sealedExt) {
				return fmt.Errorf("segment %s of partition %d is not possible", s.File, i)
			}
			last = s.Last
		}
	}
	return nil
}

func segmentName(partition int, first uint64, ext string) string {
	return fmt.Sprintf("%02d/%020d%s", partition, first, ext)
}

// ReadManifest reads an archive's manifest. The error is a *Fault when it is not
// as it was written, and wraps fs.ErrNotExist when there is none.
func ReadManifest(dir string) (*Manifest, error) {
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no archive, it has no %s: %w", dir, manifestFile, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := parseManifest(b)
	if err != nil {
		return nil, &Fault{File: manifestFile, What: err.Error()}
	}
	return m, nil
}

// writeFile replaces a file as a whole, durably.
func writeFile(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}
