package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

const (
	segmentMagic = "MUSTARC1"
	endMagic     = "MUSTEND1"
	fixedHeader  = 8 + 2 + 2 + 2 + 2 + 8 + sha256.Size
	maxHeader    = fixedHeader + 1024
	trailerSize  = 8 + 8 + 8 + 4 + 8
	maxFooter    = 1 << 30
)

// Header is what a segment says of itself.
type Header struct {
	Partition, Partitions int
	First                 uint64            // sequence of its first record
	Previous              [sha256.Size]byte // of the segment before; zeros: there is none
	Incarnation           string            // of the stream
}

func (h Header) append(dst []byte) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = append(dst, segmentMagic...)
	dst = le.AppendUint16(dst, uint16(fixedHeader+len(h.Incarnation)+4))
	dst = le.AppendUint16(dst, uint16(h.Partition))
	dst = le.AppendUint16(dst, uint16(h.Partitions))
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint64(dst, h.First)
	dst = append(dst, h.Previous[:]...)
	dst = append(dst, h.Incarnation...)
	return le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// readHeader reads the header at the start of a file and returns its length.
func readHeader(r io.ReaderAt, size int64) (h Header, length int64, err error) {
	buf := make([]byte, min(maxHeader, size))
	if _, err := r.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return Header{}, 0, err
	}
	le := binary.LittleEndian
	if len(buf) < fixedHeader+4 || string(buf[:8]) != segmentMagic {
		return Header{}, 0, errors.New("it is no segment of this format")
	}
	n := int(le.Uint16(buf[8:]))
	if n < fixedHeader+4 || n > len(buf) || le.Uint32(buf[n-4:n]) != crc32.Checksum(buf[:n-4], castagnoli) {
		return Header{}, 0, errors.New("the CRC of its header is wrong")
	}
	h = Header{
		Partition: int(le.Uint16(buf[10:])), Partitions: int(le.Uint16(buf[12:])),
		First: le.Uint64(buf[16:]), Incarnation: string(buf[fixedHeader : n-4]),
	}
	copy(h.Previous[:], buf[24:])
	return h, int64(n), nil
}

// footer is the index at the end of a sealed segment.
type footer struct {
	frames   []Frame
	names    []string         // by number
	accounts map[string][]int // id → numbers of the frames with records of it, ascending
}

func appendFooter(dst []byte, frames []Frame, accounts []string, in [][]int, z *zstd.Encoder) []byte {
	raw := binary.AppendUvarint(nil, uint64(len(frames)))
	records := uint64(0)
	for _, f := range frames {
		raw = binary.AppendUvarint(raw, uint64(f.Offset))
		raw = binary.AppendUvarint(raw, uint64(f.Records))
		raw = binary.AppendUvarint(raw, f.First)
		raw = binary.AppendUvarint(raw, f.Last)
		raw = binary.AppendVarint(raw, f.Low)
		raw = binary.AppendVarint(raw, f.High)
		records += uint64(f.Records)
	}
	raw = binary.AppendUvarint(raw, uint64(len(accounts)))
	for i, id := range accounts {
		raw = binary.AppendUvarint(raw, uint64(len(id)))
		raw = append(raw, id...)
		raw = binary.AppendUvarint(raw, uint64(len(in[i])))
		last := 0
		for _, n := range in[i] {
			raw = binary.AppendUvarint(raw, uint64(n-last))
			last = n
		}
	}
	le, start := binary.LittleEndian, len(dst)
	dst = z.EncodeAll(raw, dst)
	end := len(dst)
	dst = le.AppendUint64(dst, 0) // the offset, filled in by place
	dst = le.AppendUint64(dst, uint64(end-start))
	return le.AppendUint64(dst, records)
}

// sealWith completes a footer (without CRC and magic) that will stand at the offset.
func sealWith(foot []byte, offset int64) []byte {
	le := binary.LittleEndian
	le.PutUint64(foot[len(foot)-24:], uint64(offset))
	foot = le.AppendUint32(foot, crc32.Checksum(foot, castagnoli))
	return append(foot, endMagic...)
}

// readFooter reads the index of a sealed segment; end is where its frames end.
func readFooter(r io.ReaderAt, size int64) (ft footer, end int64, err error) {
	t := make([]byte, trailerSize)
	if size < trailerSize {
		return ft, 0, errors.New("it is cut off")
	}
	if _, err := r.ReadAt(t, size-trailerSize); err != nil {
		return ft, 0, err
	}
	le := binary.LittleEndian
	end = int64(le.Uint64(t))
	length := int64(le.Uint64(t[8:]))
	if string(t[28:]) != endMagic || length < 0 || length > maxFooter || end < 0 || end != size-trailerSize-length {
		return ft, 0, errors.New("it does not end as a segment does")
	}
	foot := make([]byte, length)
	if _, err := r.ReadAt(foot, end); err != nil {
		return ft, 0, err
	}
	if crc32.Update(crc32.Checksum(foot, castagnoli), castagnoli, t[:24]) != le.Uint32(t[24:]) {
		return ft, 0, errors.New("the CRC of its index is wrong")
	}
	ft, err = parseFooter(foot, end)
	return ft, end, err
}

func parseFooter(packed []byte, end int64) (footer, error) {
	d := newDecoder()
	defer d.free()
	raw, err := d.z.DecodeAll(packed, nil)
	if err != nil {
		return footer{}, fmt.Errorf("its index cannot be unpacked: %w", err)
	}
	broken := errors.New("its index is broken")
	p := &fields{p: raw}
	ft := footer{accounts: map[string][]int{}}
	n := p.count(6)
	for range n {
		f := Frame{Offset: int64(p.uint()), Records: int(p.uint()), First: p.uint(), Last: p.uint(), Low: p.int(), High: p.int()}
		if k := len(ft.frames); k > 0 {
			ft.frames[k-1].Length = f.Offset - ft.frames[k-1].Offset
		}
		ft.frames = append(ft.frames, f)
	}
	if n > 0 {
		ft.frames[n-1].Length = end - ft.frames[n-1].Offset
	}
	for range p.count(2) {
		id := string(p.bytes(p.count(1)))
		last, in := 0, make([]int, 0, 4)
		for range p.count(1) {
			last += int(p.uint())
			if last < 0 || last >= n {
				return footer{}, broken
			}
			in = append(in, last)
		}
		ft.accounts[id] = in
		ft.names = append(ft.names, id)
	}
	if p.bad || len(p.p) > 0 {
		return footer{}, broken
	}
	return ft, nil
}

// fields reads varints and remembers when they do not fit.
type fields struct {
	p   []byte
	bad bool
}

func (f *fields) uint() uint64 {
	v, n := uvarint(f.p)
	f.bad = f.bad || n == 0
	f.p = f.p[n:]
	return v
}

func (f *fields) int() int64 {
	v, n := varint(f.p)
	f.bad = f.bad || n == 0
	f.p = f.p[n:]
	return v
}

// count reads a number of things that take at least so many bytes each.
func (f *fields) count(each int) int {
	v := f.uint()
	if v > uint64(len(f.p)/each) {
		f.bad = true
		return 0
	}
	return int(v)
}

func (f *fields) bytes(n int) []byte {
	b := f.p[:n]
	f.p = f.p[n:]
	return b
}

// Segment is an open segment file. Its frames may be read by several goroutines,
// each with a [Scan] of its own.
type Segment struct {
	Header Header
	Path   string
	Sealed bool
	Frames []Frame

	f        *os.File
	size     int64
	names    []string         // by number, of a sealed one
	accounts map[string][]int // of a sealed one
}

// OpenSegment opens a segment file and reads its index; the frames of an
// unsealed one are found by walking over them, and what stands behind the last
// whole one is left out. An error is a *Fault or one of the file system.
func OpenSegment(path string, sealed bool) (*Segment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	s := &Segment{Path: path, Sealed: sealed, f: f}
	if err := s.load(); err != nil {
		_ = f.Close()
		return nil, &Fault{File: path, What: err.Error()}
	}
	return s, nil
}

func (s *Segment) load() error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	var at int64
	if s.Header, at, err = readHeader(s.f, s.size); err != nil {
		return err
	}
	if !s.Sealed {
		s.Frames, err = walk(s.f, at, s.size)
		return err
	}
	ft, end, err := readFooter(s.f, s.size)
	if err != nil {
		return err
	}
	s.names, s.accounts = ft.names, ft.accounts
	if s.Frames, err = walk(s.f, at, end); err != nil {
		return err
	}
	return sameFrames(s.Frames, ft.frames, end)
}

// sameFrames says whether the frames that are there are those of the index.
func sameFrames(have, index []Frame, end int64) error {
	reached := end
	if n := len(have); n > 0 {
		reached = have[n-1].Offset + have[n-1].Length
	}
	if len(have) != len(index) || reached != end {
		return fmt.Errorf("%d frames are there and %d in its index", len(have), len(index))
	}
	for i, f := range have {
		x := index[i]
		if f.Offset != x.Offset || f.Length != x.Length || f.Records != x.Records || f.First != x.First || f.Last != x.Last || f.Low != x.Low || f.High != x.High {
			return fmt.Errorf("the frame at byte %d is not the one of its index", f.Offset)
		}
	}
	return nil
}

// walk finds the frames from a place on, up to the first that is not whole.
func walk(r io.ReaderAt, at, end int64) ([]Frame, error) {
	var out []Frame
	head := make([]byte, frameHeader)
	for end-at >= frameHeader {
		if _, err := r.ReadAt(head, at); err != nil {
			return nil, err
		}
		f, err := parseFrame(head, at, end-at)
		if err != nil || len(out) > 0 && f.First <= out[len(out)-1].Last {
			return out, nil
		}
		out = append(out, f)
		at += f.Length
	}
	return out, nil
}

// Close closes the file.
func (s *Segment) Close() error { return s.f.Close() }

// First and Last are the sequences that the segment covers; Last is First − 1
// when it holds nothing.
func (s *Segment) First() uint64 { return s.Header.First }

// Last is the sequence of the last record.
func (s *Segment) Last() uint64 {
	if n := len(s.Frames); n > 0 {
		return s.Frames[n-1].Last
	}
	return s.Header.First - 1
}

// Holds returns the numbers of the frames with records of the account; ok is
// false when the segment has no index yet, and all frames must be read.
func (s *Segment) Holds(account string) (frames []int, ok bool) {
	return s.accounts[account], s.Sealed
}

// Sum is the SHA-256 of the whole file, in hex.
func (s *Segment) Sum() (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(s.f, 0, s.size)); err != nil {
		return "", fmt.Errorf("read %s: %w", s.Path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Scan reads a segment's frames in order.
type Scan struct {
	s     *Segment
	d     *decoder
	buf   bytes.Buffer
	next  int
	names []string // of the segment's accounts so far
	block Block    // of frames that are passed over
}

// Scan begins at the segment's first frame. Close it.
func (s *Segment) Scan() *Scan { return &Scan{s: s, d: newDecoder()} }

// Close frees what the scan holds.
func (sc *Scan) Close() { sc.d.free() }

// Names are the accounts named so far, by number. It grows with Next.
func (sc *Scan) Names() []string { return sc.names }

// Seek makes frame n the next one.
func (sc *Scan) Seek(n int) error {
	if sc.s.Sealed {
		known := 0
		for _, f := range sc.s.Frames[:n] {
			known += f.names
		}
		if known > len(sc.s.names) {
			return &Fault{File: sc.s.Path, Partition: sc.s.Header.Partition, What: "its frames name more accounts than its index"}
		}
		sc.names, sc.next = sc.s.names[:known:known], n
		return nil
	}
	if n < sc.next {
		sc.names, sc.next = nil, 0
	}
	for sc.next < n {
		if err := sc.Next(&sc.block); err != nil {
			return err
		}
	}
	return nil
}

// Next reads the next frame into b; it returns io.EOF behind the last one, and
// a *Fault for a frame that is not whole.
func (sc *Scan) Next(b *Block) error {
	if sc.next == len(sc.s.Frames) {
		return io.EOF
	}
	f := sc.s.Frames[sc.next]
	sc.buf.Reset()
	sc.buf.Grow(int(f.Length))
	buf := sc.buf.AvailableBuffer()[:f.Length]
	if _, err := sc.s.f.ReadAt(buf, f.Offset); err != nil {
		return fmt.Errorf("read %s: %w", sc.s.Path, err)
	}
	if err := sc.d.decode(buf, f, len(sc.names), b); err != nil {
		return &Fault{File: sc.s.Path, Partition: sc.s.Header.Partition, Offset: f.Offset, First: f.First, Last: f.Last, What: err.Error()}
	}
	sc.names = append(sc.names, b.Names...)
	sc.next++
	return nil
}
