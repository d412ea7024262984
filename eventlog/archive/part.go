package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/musterhq/muster/eventlog"
)

// part writes one partition.
type part struct {
	w    *Writer
	n    int
	last uint64 // added

	enc     *encoder
	file    *os.File // of the open segment; nil: none is open
	name    string
	header  Header
	size    int64   // of the file, whole frames
	frames  []Frame // in the file
	in      [][]int // by number of the account: the frames with records of it
	records int
	now     map[uint32]bool // accounts of the frame that is gathered
	buf     []byte
	synced  int64 // bytes that the manifest names
}

// openPart puts a partition's folder right and goes on where it ends.
func (w *Writer) openPart(n int) (*part, error) {
	p := &part{w: w, n: n, enc: newEncoder(), now: map[uint32]bool{}}
	dir := filepath.Join(w.dir, fmt.Sprintf("%02d", n))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	known := &w.manifest.Partitions[n]
	p.last = known.Last()
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, f := range files {
		name := fmt.Sprintf("%02d/%s", n, f.Name())
		keep := false
		switch filepath.Ext(name) {
		case openExt:
			// Of a segment that the manifest names as sealed, only the removal was missing.
			if keep = firstOf(f.Name()) > p.last; keep {
				open = append(open, name)
			}
		case sealedExt:
			// Of a seal that was interrupted, the open segment is still there.
			keep = slices.ContainsFunc(known.Segments, func(s SegmentInfo) bool { return s.File == name })
		case ".tmp":
		default:
			keep = true // not ours
		}
		if !keep {
			if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case len(open) > 1:
		return nil, &Fault{File: open[1], Partition: n, What: "a second open segment"}
	case known.Open != nil && (len(open) == 0 || open[0] != known.Open.File):
		return nil, &Fault{File: known.Open.File, Partition: n, First: p.last + 1, Last: known.Open.Last, What: "the open segment is gone"}
	case len(open) == 0:
		return p, nil
	}
	return p, p.resume(open[0])
}

// firstOf is the sequence in a segment's file name; 0: it is no such name.
func firstOf(name string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, filepath.Ext(name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// resume goes on with an open segment.
func (p *part) resume(name string) error {
	known := &p.w.manifest.Partitions[p.n]
	path := filepath.Join(p.w.dir, name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	h, end, err := readAll(f, p.recall)
	var fault *Fault
	if errors.As(err, &fault) && known.Open == nil {
		// Killed before its header was written.
		return errors.Join(f.Close(), os.Remove(path))
	}
	if err == nil && known.Open != nil && end < known.Open.Bytes {
		err = &Fault{File: name, Partition: p.n, Offset: end, What: fmt.Sprintf("%d bytes of it are whole; the manifest names %d", end, known.Open.Bytes)}
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.file, p.name, p.header, p.size = f, name, h, end
	return nil
}

// recall takes a frame of the open segment into the index.
func (p *part) recall(f Frame, sc *Scan, b *Block) {
	for _, id := range b.Names {
		p.enc.name(id)
		p.in = append(p.in, nil)
	}
	for _, e := range b.Entries {
		p.now[e.Account] = true
	}
	p.framed(f)
	p.last = f.Last
}

// framed notes a frame that is in the file.
func (p *part) framed(f Frame) {
	for n := range p.now {
		p.in[n] = append(p.in[n], len(p.frames))
	}
	clear(p.now)
	p.frames = append(p.frames, f)
	p.records += f.Records
}

func (p *part) add(r *eventlog.Record) error {
	if r.Seq <= p.last {
		return fmt.Errorf("%w: sequence %d, the last one is %d", ErrOrder, r.Seq, p.last)
	}
	if p.file == nil {
		if err := p.begin(r.Seq); err != nil {
			return err
		}
	}
	p.enc.add(r)
	for len(p.in) < len(p.enc.accounts) {
		p.in = append(p.in, nil)
	}
	p.now[p.enc.numbers[r.Account]] = true
	p.last = r.Seq
	if p.enc.records < p.w.limits.FrameRecords && len(p.enc.data) < p.w.limits.FrameBytes {
		return nil
	}
	if err := p.write(); err != nil {
		return err
	}
	if p.records >= p.w.limits.SegmentRecords || p.size >= p.w.limits.SegmentBytes {
		return p.seal()
	}
	return nil
}

// begin starts a segment.
func (p *part) begin(first uint64) error {
	known := p.w.manifest.Partitions[p.n]
	p.header = Header{Partition: p.n, Partitions: len(p.w.manifest.Partitions), First: first, Previous: known.previous(), Incarnation: known.Incarnation}
	p.name = segmentName(p.n, first, openExt)
	f, err := os.OpenFile(filepath.Join(p.w.dir, p.name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	b := p.header.append(nil)
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Close())
	}
	p.file, p.size, p.frames, p.in, p.records, p.synced = f, int64(len(b)), nil, nil, 0, 0
	p.enc.begin()
	return nil
}

// write writes the frame that was gathered.
func (p *part) write() error {
	if p.enc.records == 0 {
		return nil
	}
	p.buf = p.enc.flush(p.buf[:0])
	if _, err := p.file.WriteAt(p.buf, p.size); err != nil {
		return err
	}
	f, err := parseFrame(p.buf[:frameHeader], p.size, int64(len(p.buf)))
	if err != nil {
		return err
	}
	p.framed(f)
	p.size += int64(len(p.buf))
	return nil
}

func (p *part) checkpoint() error {
	if p.file == nil {
		return nil
	}
	if err := p.write(); err != nil || p.synced == p.size || len(p.frames) == 0 {
		return err
	}
	if err := p.sync(); err != nil {
		return err
	}
	return p.w.change(p.n, func(m *Partition) {
		m.Open = &OpenInfo{File: p.name, Bytes: p.size, Last: p.last, Records: p.records}
	})
}

func (p *part) sync() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	p.synced = p.size
	return syncDir(filepath.Dir(p.file.Name()))
}

// seal gives the open segment its index and its final name. The file under the
// open name stays until the manifest names the sealed one.
func (p *part) seal() error {
	if p.file == nil {
		return nil
	}
	if err := p.write(); err != nil {
		return err
	}
	open := filepath.Join(p.w.dir, p.name)
	final := segmentName(p.n, p.header.First, sealedExt)
	info, err := p.finish(filepath.Join(p.w.dir, final))
	if err != nil {
		return err
	}
	info.File = final
	err = p.w.change(p.n, func(m *Partition) {
		m.Segments, m.Open = append(slices.Clip(m.Segments), info), nil
	})
	if err != nil {
		return err
	}
	err = errors.Join(p.file.Close(), os.Remove(open))
	p.file = nil
	return err
}

// finish writes the sealed segment. One whose frames are mostly full is copied
// as it is; one of many small frames is packed anew.
func (p *part) finish(path string) (SegmentInfo, error) {
	src := &Segment{Header: p.header, Path: p.file.Name(), Frames: p.frames, f: p.file, size: p.size}
	frames, in, accounts := p.frames, p.in, p.enc.accounts
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return SegmentInfo{}, err
	}
	defer out.Close() // again, when it went well
	h := sha256.New()
	to := io.MultiWriter(out, h)
	end := p.size
	if p.small() {
		if frames, in, accounts, end, err = src.repack(to, p.w.limits); err != nil {
			return SegmentInfo{}, err
		}
	} else if _, err := io.Copy(to, io.NewSectionReader(p.file, 0, p.size)); err != nil {
		return SegmentInfo{}, err
	}
	foot := sealWith(appendFooter(nil, frames, accounts, in, p.enc.z), end)
	if _, err := to.Write(foot); err != nil {
		return SegmentInfo{}, err
	}
	if err := errors.Join(out.Sync(), out.Close(), syncDir(filepath.Dir(path))); err != nil {
		return SegmentInfo{}, err
	}
	info := SegmentInfo{
		First: frames[0].First, Last: frames[len(frames)-1].Last, Records: p.records,
		Low: frames[0].Low, High: frames[0].High, Bytes: end + int64(len(foot)), SHA256: hex.EncodeToString(h.Sum(nil)),
	}
	for _, f := range frames {
		info.Low, info.High = min(info.Low, f.Low), max(info.High, f.High)
	}
	return info, nil
}

// small says whether the frames are, on the whole, less than half full.
func (p *part) small() bool {
	raw := 0
	for _, f := range p.frames {
		raw += f.raw
	}
	n := len(p.frames)
	return n > 1 && p.records < n*p.w.limits.FrameRecords/2 && raw < n*p.w.limits.FrameBytes/2
}

// repack writes a segment's header and records in full frames.
func (s *Segment) repack(to io.Writer, limits Limits) (frames []Frame, in [][]int, accounts []string, size int64, err error) {
	head := s.Header.append(nil)
	if _, err := to.Write(head); err != nil {
		return nil, nil, nil, 0, err
	}
	size = int64(len(head))
	enc, sc := newEncoder(), s.Scan()
	defer sc.Close()
	var buf []byte
	flush := func() error {
		seen := map[uint32]bool{}
		for _, l := range enc.lengths {
			seen[l.account] = true
		}
		for len(in) < len(enc.accounts) {
			in = append(in, nil)
		}
		for n := range seen {
			in[n] = append(in[n], len(frames))
		}
		buf = enc.flush(buf[:0])
		f, err := parseFrame(buf[:frameHeader], size, int64(len(buf)))
		if err != nil {
			return err
		}
		frames, size = append(frames, f), size+int64(len(buf))
		_, err = to.Write(buf)
		return err
	}
	var b Block
	for err = sc.Next(&b); err == nil; err = sc.Next(&b) {
		for _, e := range b.Entries {
			enc.add(&eventlog.Record{Seq: e.Seq, Time: e.Time, Account: sc.names[e.Account], Data: e.Data})
			if enc.records >= limits.FrameRecords || len(enc.data) >= limits.FrameBytes {
				if err := flush(); err != nil {
					return nil, nil, nil, 0, err
				}
			}
		}
	}
	if err != io.EOF {
		return nil, nil, nil, 0, err
	}
	if enc.records > 0 {
		if err := flush(); err != nil {
			return nil, nil, nil, 0, err
		}
	}
	return frames, in, enc.accounts, size, nil
}

func (p *part) close() error {
	p.enc.z.Close()
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
