package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"
)

// Read reads a snapshot. The entries may be used once, and their State only
// until the next one. They end with an error, or by themselves when the
// checksum at the end is right: only then may any of them be used. A caller
// that stops earlier has nothing. Every error is an *Error.
func Read(r io.Reader, want Want) (Header, iter.Seq2[Entry, error], error) {
	body := newBody(r)
	h, err := readHeader(body)
	if err == nil {
		err = want.check(h)
	}
	if err != nil {
		return h, nil, err
	}
	return h, func(yield func(Entry, error) bool) {
		if err := readEntries(body, h.Count, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, err)
		}
	}, nil
}

// readEntries calls yield for each entry until it wants no more, and checks
// the end of the file.
func readEntries(body *body, count int, yield func(Entry) bool) error {
	z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(16<<20))
	if err != nil {
		return asError("the entries do not begin", err)
	}
	defer z.Close()
	in := entryReader{r: bufio.NewReaderSize(z, 64<<10)}
	for range count {
		e := in.entry()
		if in.err != nil {
			return asError("an entry cannot be read", in.err)
		}
		if !yield(e) {
			return nil
		}
	}
	switch _, err := in.r.ReadByte(); {
	case err == nil:
		return unusable(Damaged, "something follows the last entry")
	case err != io.EOF:
		return asError("the end cannot be read", err)
	}
	return body.verify()
}

// entryReader takes entries apart. Its first error stays.
type entryReader struct {
	r     *bufio.Reader
	state bytes.Buffer
	text  bytes.Buffer
	err   error
}

func (in *entryReader) entry() (e Entry) {
	e.Account = string(in.bytes(&in.text))
	e.Seq = in.uvarint()
	if in.err == nil {
		_, in.err = io.ReadFull(in.r, e.Hash[:])
	}
	e.Damage = string(in.bytes(&in.text))
	e.State = in.bytes(&in.state)
	return e
}

func (in *entryReader) uvarint() uint64 {
	if in.err != nil {
		return 0
	}
	u, err := binary.ReadUvarint(in.r)
	in.err = err
	return u
}

// bytes reads a length and as many bytes. The buffer grows with what is really
// there, so a wrong length cannot ask for more memory than the file has.
func (in *entryReader) bytes(buf *bytes.Buffer) []byte {
	n := in.uvarint()
	buf.Reset()
	if in.err != nil || n == 0 {
		return nil
	}
	if n > 1<<40 {
		in.err = unusable(Damaged, "a length of %d", n)
		return nil
	}
	if _, in.err = io.CopyN(buf, in.r, int64(n)); in.err != nil {
		return nil
	}
	return buf.Bytes()
}

// body yields a file without the checksum at its end, which it keeps, and adds
// up what it yields.
type body struct {
	r    io.Reader
	sum  hash.Hash
	buf  []byte
	held []byte // the part of buf that was read and not yielded yet; its end may be the checksum
	eof  bool
}

func newBody(r io.Reader) *body {
	return &body{r: r, sum: sha256.New(), buf: make([]byte, 64<<10)}
}

// Read yields what lies at least the checksum's size before the end.
func (b *body) Read(p []byte) (int, error) {
	for len(b.held) <= sumSize && !b.eof {
		kept := copy(b.buf, b.held)
		n, err := b.r.Read(b.buf[kept:])
		b.held = b.buf[:kept+n]
		switch {
		case err == io.EOF:
			b.eof = true
		case err != nil:
			return 0, sourceError{err}
		}
	}
	n := min(len(p), len(b.held)-sumSize)
	switch {
	case len(p) == 0:
		return 0, nil
	case n <= 0:
		return 0, io.EOF
	}
	copy(p, b.held[:n])
	b.sum.Write(p[:n])
	b.held = b.held[n:]
	return n, nil
}

// verify compares the checksum once everything before it was read.
func (b *body) verify() error {
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return unusable(Damaged, "something follows the entries")
	}
	if !bytes.Equal(b.sum.Sum(nil), b.held) {
		return unusable(Damaged, "it does not have its checksum")
	}
	return nil
}
