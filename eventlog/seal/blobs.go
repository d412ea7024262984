package seal

import (
	"bufio"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/musterhq/muster/eventlog"
)

var _ eventlog.Blobs = (*Blobs)(nil)

// Blobs are blobs that are encrypted with the key for all of them, which changes
// whenever an account is erased: a blob of before is then not found.
type Blobs struct {
	inner eventlog.Blobs
	keys  *Keys
}

// WrapBlobs encrypts blobs.
func WrapBlobs(inner eventlog.Blobs, keys *Keys) *Blobs { return &Blobs{inner, keys} }

// A sealed blob is its magic, a salt, and chunks of up to chunkSize bytes, each with
// its tag. The last one is marked, so that a blob that was cut is none.
const (
	blobMagic = "MUSTERB1"
	saltSize  = 32
	chunkSize = 64 << 10
)

// errBlob: the blob is cut short, altered, or of a key that was destroyed.
var errBlob = errors.New("the blob cannot be decrypted")

// blobCipher is the cipher of one blob: each salt gives another key.
func (k *Keys) blobCipher(salt []byte) (cipher.AEAD, error) {
	k.mu.RLock()
	m := hmac.New(sha256.New, k.master[:])
	k.mu.RUnlock()
	m.Write(salt)
	block, err := aes.NewCipher(m.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// chunkNonce counts the chunks and marks the last one.
func chunkNonce(n uint64, last bool) []byte {
	nonce := binary.BigEndian.AppendUint64(make([]byte, 3, nonceSize), n)
	if last {
		return append(nonce, 1)
	}
	return append(nonce, 0)
}

// Put encrypts what r yields and stores it.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader) error {
	salt := make([]byte, saltSize)
	random(salt)
	gcm, err := b.keys.blobCipher(salt)
	if err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	return b.inner.Put(ctx, name, &sealing{
		r: bufio.NewReaderSize(r, chunkSize), gcm: gcm, out: append([]byte(blobMagic), salt...), plain: make([]byte, chunkSize),
	})
}

// sealing encrypts what is read through it.
type sealing struct {
	r     *bufio.Reader
	gcm   cipher.AEAD
	plain []byte
	out   []byte // encrypted and not read yet
	n     uint64
	done  bool
}

// Read yields what is encrypted.
func (s *sealing) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.done {
			return 0, io.EOF
		}
		n, err := io.ReadFull(s.r, s.plain)
		if err == nil {
			_, err = s.r.Peek(1)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			s.done = true
		default:
			return 0, err
		}
		s.out = s.gcm.Seal(nil, chunkNonce(s.n, s.done), s.plain[:n], nil)
		s.n++
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// Get decrypts a blob. One that was encrypted with a key that is destroyed is an
// ErrNotFound.
func (b *Blobs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := b.inner.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(in, chunkSize+tagSize)
	head := make([]byte, len(blobMagic)+saltSize)
	_, err = io.ReadFull(r, head)
	if err == nil && string(head[:len(blobMagic)]) != blobMagic {
		err = errBlob
	}
	if err == nil {
		var gcm cipher.AEAD
		if gcm, err = b.keys.blobCipher(head[len(blobMagic):]); err == nil {
			o := &opening{r: r, in: in, gcm: gcm, sealed: make([]byte, chunkSize+tagSize)}
			if err = o.next(); err == nil {
				return o, nil
			}
		}
	}
	err = errors.Join(err, in.Close())
	return nil, fmt.Errorf("get blob %q: %w: %w", name, eventlog.ErrNotFound, err)
}

// opening decrypts what is read through it.
type opening struct {
	r      *bufio.Reader
	in     io.Closer
	gcm    cipher.AEAD
	sealed []byte
	plain  []byte // decrypted and not read yet
	n      uint64
	done   bool
}

// next decrypts a chunk.
func (o *opening) next() error {
	n, err := io.ReadFull(o.r, o.sealed)
	if err == nil {
		_, err = o.r.Peek(1)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		o.done = true
	default:
		return err
	}
	if o.plain, err = o.gcm.Open(nil, chunkNonce(o.n, o.done), o.sealed[:n], nil); err != nil {
		return errBlob
	}
	o.n++
	return nil
}

// Read yields what is decrypted.
func (o *opening) Read(p []byte) (int, error) {
	for len(o.plain) == 0 {
		if o.done {
			return 0, io.EOF
		}
		if err := o.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// Close ends the reading.
func (o *opening) Close() error { return o.in.Close() }

// Delete removes a blob.
func (b *Blobs) Delete(ctx context.Context, name string) error { return b.inner.Delete(ctx, name) }
