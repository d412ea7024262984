package blockscan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/musterhq/muster/eventlog"
)

// scanner reads the blocks of one partition after each other.
type scanner struct {
	partition, partitions int
	want                  uint64 // the next sequence
	buf                   []byte // of one block, used again
	report                Report
}

// block reads one block file.
func (s *scanner) block(path string, number int, last bool) error {
	b, err := s.load(path)
	if err != nil {
		return err
	}
	s.report.Bytes += int64(len(b))
	if unreadable(path, b) {
		s.report.Unchecked = append(s.report.Unchecked, path)
		return nil
	}
	c, err := newChecker(eventlog.StreamName(s.partition), number)
	if err != nil {
		return err
	}
	s.records(c, path, b, last)
	return nil
}

// records reads the records of one block. After damage it goes on: what stands
// behind is still named, since the server will drop it. last says that it is
// the stream's last block.
func (s *scanner) records(c *checker, path string, b []byte, last bool) {
	damaged := false
	for off := 0; off < len(b); {
		r, ok := c.parse(b[off:])
		if ok {
			s.whole(path, off, r, damaged)
			off += r.size
			continue
		}
		off += s.damaged(c, path, b, off, last && !damaged)
		damaged = true
	}
}

// load reads a whole block file into the scanner's buffer.
func (s *scanner) load(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if int64(cap(s.buf)) < st.Size() {
		s.buf = make([]byte, st.Size())
	}
	s.buf = s.buf[:st.Size()]
	_, err = io.ReadFull(f, s.buf)
	return s.buf, errors.Join(err, f.Close())
}

// packed is what a compressed block begins with.
const packed = "cmp\x01"

// unreadable reports a block that is encrypted (it has a key file) or
// compressed (it begins with a mark).
func unreadable(path string, b []byte) bool {
	_, err := os.Stat(path[:len(path)-len(".blk")] + ".key")
	return err == nil || bytes.HasPrefix(b, []byte(packed))
}

// whole takes a record that matches its checksum.
func (s *scanner) whole(path string, off int, r record, behind bool) {
	if r.place() {
		if r.seq&tombstone == 0 { // it stands for its own sequence
			s.reach(path, off, r.seq&^uint64(erased))
		}
		return
	}
	s.reach(path, off, r.seq)
	s.report.Records++
	if behind {
		s.add(path, off, r.seq, r.seq, s.account(r.subject), Behind)
	}
}

// reach says that a sequence is there: what is missing before it is lost.
func (s *scanner) reach(path string, off int, seq uint64) {
	if seq > s.want {
		at := int64(off)
		if off == 0 { // nothing of it is in this block: a block before it is missing or short
			at = -1
		}
		s.report.Damage = append(s.report.Damage, Damage{
			Partition: s.partition, Block: path, Offset: at, Seq: s.want, To: seq - 1, Reason: Lost,
		})
	}
	if seq >= s.want {
		s.want = seq + 1
	}
}

func (s *scanner) add(path string, off int, seq, to uint64, account string, reason Reason) {
	s.report.Damage = append(s.report.Damage, Damage{
		Partition: s.partition, Block: path, Offset: int64(off), Seq: seq, To: to, Account: account, Reason: reason,
	})
}

// damaged names what stands at off, which is no whole record, and returns how
// far the next one is. tail says that this is the stream's last block and
// nothing of it was damaged yet.
func (s *scanner) damaged(c *checker, path string, b []byte, off int, tail bool) int {
	if r, ok := c.flipped(b[off:]); ok && !r.place() {
		s.reach(path, off, r.seq)
		s.add(path, off, r.seq, r.seq, s.account(r.subject), Flipped)
		return r.size
	}
	next := s.find(c, b, off+1)
	if next < 0 && tail && s.tornAt(b[off:]) {
		s.add(path, off, s.want, s.want, s.accountAt(b[off:]), Torn)
		return len(b) - off
	}
	account, seq := s.accountAt(b[off:]), s.want
	if size, _, _, ok := bounds(b[off:]); ok && (off+size == next || off+size == len(b)) && account != "" {
		// The length is good, so it is one record.
		s.add(path, off, seq, seq, account, Garbled)
		s.want = seq + 1
		return size
	}
	if next < 0 {
		s.add(path, off, seq, seq, account, Lost) // whether more were behind it, the next block's first sequence says
		s.want = seq + 1
		return len(b) - off
	}
	first, _ := c.parse(b[next:])
	to := max(first.seq, seq+1) - 1
	if to != seq {
		account = "" // several records, and only the first has a name
	}
	s.add(path, off, seq, to, account, Lost)
	s.want = to + 1
	return next - off
}

// tornAt reports whether b is the beginning of a record that was not written
// to its end, or space that was given to the file and not written at all.
func (s *scanner) tornAt(b []byte) bool {
	if len(b) < headSize || len(bytes.Trim(b, "\x00")) == 0 {
		return true
	}
	return binary.LittleEndian.Uint64(b[4:]) == s.want
}

// find returns where the next whole record begins, at from or later, or -1. It
// looks for the subjects that all records of the partition have.
func (s *scanner) find(c *checker, b []byte, from int) int {
	prefix := fmt.Appendf(nil, "%s%02d.", eventlog.SubjectPrefix, s.partition)
	for from < len(b) {
		i := bytes.Index(b[from:], prefix)
		if i < 0 {
			return -1
		}
		if at := from + i - headSize; at >= 0 && at >= from-headSize {
			if _, ok := c.parse(b[at:]); ok && at >= from {
				return at
			}
		}
		from += i + 1
	}
	return -1
}

// accountAt is the account of the record at the start of b, if what stands
// there can be believed.
func (s *scanner) accountAt(b []byte) string {
	if len(b) < headSize {
		return ""
	}
	n := int(binary.LittleEndian.Uint16(b[20:]))
	if headSize+n > len(b) {
		return ""
	}
	return s.account(b[headSize : headSize+n])
}

// account reads a subject; it must be one of the partition.
func (s *scanner) account(subject []byte) string {
	p, account, err := eventlog.ParseSubject(string(subject))
	if err != nil || p != s.partition || eventlog.Partition(account, s.partitions) != p {
		return ""
	}
	return account
}

// copyAside copies a block into the quarantine folder, under a name that says
// where it is from and what it holds, and syncs it.
func copyAside(path, folder string, partition, number int) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	to := filepath.Join(folder, fmt.Sprintf("%s-%d-%x.blk", eventlog.StreamName(partition), number, sum[:4]))
	f, err := os.Create(to)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return to, errors.Join(err, f.Sync(), f.Close())
}
