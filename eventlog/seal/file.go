package seal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of the folder. The new one is a keys file that is being written; the
// old one has been replaced and is about to be overwritten.
const (
	keysFile = "accounts.keys"
	newFile  = "accounts.keys.new"
	oldFile  = "accounts.keys.old"
)

// The file is the magic and then frames: length of the payload (4 bytes, little
// endian), CRC-32C of these 4 bytes, CRC-32C of the payload, payload. A payload
// begins with its kind.
const magic = "MUSTERK1"

const (
	kindHead     = 1 // partitions (1 byte), master key
	kindAccounts = 2 // of each account: alias, secret, length of the id (2 bytes), id
	kindErased   = 3 // Erased as JSON
)

const frameHead = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func frame(dst, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[len(dst)-4:], castagnoli))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	return append(dst, payload...)
}

func (e *key) encode(dst []byte) []byte {
	dst = append(dst, e.alias...)
	dst = append(dst, e.secret[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.id)))
	return append(dst, e.id...)
}

// write writes all that is known into a file, synced.
func (k *Keys) write(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head := append([]byte{kindHead, byte(k.partitions)}, k.master[:]...)
	buf := frame([]byte(magic), head)
	for _, e := range k.AllErased() {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		buf = frame(buf, append([]byte{kindErased}, text...))
	}
	for _, e := range k.byID {
		buf = frame(buf, e.encode([]byte{kindAccounts}))
		if len(buf) > 1<<20 {
			if _, err := f.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	if _, err := f.Write(buf); err != nil {
		return err
	}
	return f.Sync()
}

// append adds accounts to the file; they are on disk when it returns nil, and
// not in the file when it returns an error. k.mu is held.
func (k *Keys) append(fresh []*key) error {
	if k.broken != nil {
		return k.broken
	}
	if k.file == nil {
		return fmt.Errorf("%w: closed", ErrKeys)
	}
	payload := []byte{kindAccounts}
	for _, e := range fresh {
		payload = e.encode(payload)
	}
	buf := frame(nil, payload)
	_, err := k.file.WriteAt(buf, k.size)
	if err == nil {
		err = k.file.Sync()
	}
	if err != nil {
		if back := k.file.Truncate(k.size); back != nil {
			k.broken = fmt.Errorf("%w: %w", ErrKeys, errors.Join(err, back))
		}
		return fmt.Errorf("store keys: %w", err)
	}
	k.size += int64(len(buf))
	return nil
}

// load reads the file and opens it for appending. What a crash left of a frame
// whose accounts have no record yet is cut off.
func (k *Keys) load() error {
	f, err := os.OpenFile(filepath.Join(k.dir, keysFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err == nil {
		k.size, err = k.parse(text)
	}
	if err == nil && k.size < int64(len(text)) {
		err = errors.Join(f.Truncate(k.size), f.Sync())
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	k.file = f
	return nil
}

// ReadOnly reads the keys of a folder and changes nothing there: of a server that
// is running, or a copy. New accounts cannot be given keys.
func ReadOnly(dir string) (*Keys, error) {
	k := empty(dir, 0)
	text, err := os.ReadFile(filepath.Join(dir, keysFile))
	if err == nil {
		_, err = k.parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return k, nil
}

// ReadErased lists the erased accounts of a folder of keys, the first one first.
func ReadErased(dir string) ([]Erased, error) {
	k, err := ReadOnly(dir)
	if err != nil {
		return nil, err
	}
	return k.AllErased(), nil
}

// parse returns where the whole frames end.
func (k *Keys) parse(text []byte) (int64, error) {
	if !bytes.HasPrefix(text, []byte(magic)) {
		return 0, fmt.Errorf("%w: %s is not a file of keys", ErrKeys, keysFile)
	}
	for at := len(magic); at < len(text); {
		rest := text[at:]
		payload, ok := unframe(rest)
		if !ok {
			if torn(rest) && at > len(magic) {
				return int64(at), nil
			}
			return 0, fmt.Errorf("%w: %s is damaged at byte %d; put it back from a copy", ErrKeys, keysFile, at)
		}
		if err := k.take(payload); err != nil {
			return 0, fmt.Errorf("%w: %s at byte %d: %w", ErrKeys, keysFile, at, err)
		}
		at += frameHead + len(payload)
	}
	return int64(len(text)), nil
}

// lengthOf returns the payload's length as the frame's head has it; ok is false
// when the head is not one.
func lengthOf(b []byte) (n uint64, ok bool) {
	if len(b) < frameHead {
		return 0, false
	}
	n = uint64(binary.LittleEndian.Uint32(b))
	return n, n > 0 && crc32.Checksum(b[:4], castagnoli) == binary.LittleEndian.Uint32(b[4:])
}

// unframe returns the payload of the frame that b begins with.
func unframe(b []byte) ([]byte, bool) {
	n, ok := lengthOf(b)
	if !ok || n > uint64(len(b)-frameHead) {
		return nil, false
	}
	payload := b[frameHead : frameHead+n]
	return payload, crc32.Checksum(payload, castagnoli) == binary.LittleEndian.Uint32(b[8:])
}

// torn says whether a bad frame is one whose writing was interrupted: the file
// ends within it, or nothing of it was written. Anything else is damage, and must
// not cost the keys behind it.
func torn(b []byte) bool {
	n, ok := lengthOf(b)
	return len(b) < frameHead || ok && n > uint64(len(b)-frameHead) || len(bytes.Trim(b, "\x00")) == 0
}

func (k *Keys) take(payload []byte) error {
	kind, b := payload[0], payload[1:]
	switch kind {
	case kindHead:
		if len(b) != 1+masterSize {
			return errors.New("a head of another size")
		}
		if k.partitions == 0 {
			k.partitions = int(b[0])
		}
		if n := int(b[0]); n != k.partitions {
			return fmt.Errorf("the keys are of a log of %d partitions, not %d", n, k.partitions)
		}
		copy(k.master[:], b[1:])
	case kindErased:
		var e Erased
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		k.erased[e.Alias] = e
	case kindAccounts:
		return k.takeAccounts(b)
	default:
		return fmt.Errorf("a frame of kind %d was written by a newer Muster", kind)
	}
	return nil
}

func (k *Keys) takeAccounts(b []byte) error {
	const fixed = aliasSize + secretSize + 2
	for len(b) > 0 {
		if len(b) < fixed {
			return errors.New("an account is cut short")
		}
		n := int(binary.LittleEndian.Uint16(b[fixed-2:]))
		if len(b) < fixed+n {
			return errors.New("an account is cut short")
		}
		e := &key{alias: string(b[:aliasSize]), id: string(b[fixed : fixed+n])}
		copy(e.secret[:], b[aliasSize:])
		k.byID[e.id], k.alias[e.alias] = e, e
		b = b[fixed+n:]
	}
	return nil
}

// Erase destroys the keys of accounts, and the key of all blobs with them: what
// they encrypt can be read by nobody from then on, wherever a copy of it lies.
// The file is written anew without them, and the bytes of the one before are
// overwritten. The blobs must be thrown away, and nobody may use a log or blobs of
// these keys meanwhile.
func (k *Keys) Erase(ids []string, why Erased) ([]Erased, error) {
	k.mu.Lock()
	var done []Erased
	for _, id := range ids {
		e := k.byID[id]
		if e == nil {
			continue
		}
		why.Alias = e.alias
		k.erased[e.alias] = why
		done = append(done, why)
		delete(k.byID, id)
		delete(k.alias, e.alias)
		clear(e.secret[:])
	}
	random(k.master[:])
	k.mu.Unlock()
	err := k.write(filepath.Join(k.dir, newFile))
	if err == nil {
		err = k.install()
	}
	if err == nil {
		err = k.reopen()
	}
	if err != nil {
		k.mu.Lock()
		k.broken = fmt.Errorf("%w: an erasure was interrupted: %w", ErrKeys, err)
		k.mu.Unlock()
		return nil, fmt.Errorf("erase keys: %w", err)
	}
	return done, nil
}

func (k *Keys) reopen() error {
	if err := k.Close(); err != nil {
		return err
	}
	fresh := empty(k.dir, k.partitions)
	if err := fresh.load(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file, k.size = fresh.file, fresh.size
	return nil
}

// install puts the new file in the place of the keys file, and then overwrites
// what that was. After a crash in between, recover goes on.
func (k *Keys) install() error {
	path, old := filepath.Join(k.dir, keysFile), filepath.Join(k.dir, oldFile)
	if err := os.Link(path, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(filepath.Join(k.dir, newFile), path); err != nil {
		return err
	}
	if err := syncDir(k.dir); err != nil {
		return err
	}
	return wipe(old)
}

// recover finishes or undoes what a crash interrupted. A new file was not in
// force yet; an old one is not any more, unless it still is the keys file.
func (k *Keys) recover() error {
	path, old := filepath.Join(k.dir, keysFile), filepath.Join(k.dir, oldFile)
	if err := wipe(filepath.Join(k.dir, newFile)); err != nil {
		return err
	}
	was, err := os.Stat(old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := os.Stat(path)
	if err != nil {
		return err
	}
	if os.SameFile(was, is) {
		return os.Remove(old)
	}
	return wipe(old)
}

// wipe overwrites a file's bytes with zeros and removes it; none is no error.
func wipe(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	zeros := make([]byte, 1<<16)
	for at := int64(0); err == nil && at < info.Size(); at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
