package projections

import (
	"bytes"
	"hash/maphash"
	"io"
	"sync"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/pages"
	"github.com/musterhq/muster/projections/internal/wire"
)

// Roster numbers the accounts of each partition in the order of their first
// event, and remembers each one's last event number. All views of a Runner
// share it: each of them keeps rows by number, and the ids are held once.
type Roster struct {
	parts []*Ids
}

// NewRoster returns an empty roster of that many partitions.
func NewRoster(partitions int) *Roster {
	r := &Roster{}
	seed := maphash.MakeSeed()
	for range partitions {
		r.parts = append(r.parts, &Ids{seed: seed})
	}
	return r
}

// Partitions is the number of partitions.
func (r *Roster) Partitions() int { return len(r.parts) }

// Ids are the accounts of one partition.
func (r *Roster) Ids(partition int) *Ids { return r.parts[partition] }

// Ids are the account ids of one partition by number, and the numbers by id.
//
// One goroutine, the owner of the partition, adds to it and may read it as it
// is. Any other must hold RLock while it calls any of its methods.
type Ids struct {
	mu   sync.RWMutex
	seed maphash.Seed

	// slots is a hash table with open addressing: the upper half of the id's
	// hash, then number+1; 0 is a free slot. The upper half also says where
	// to look first, so that growing needs no id.
	slots    []uint64
	accounts pages.List[rosterRow]

	// The ids lie one behind the other in chunks, each with its length in
	// front; a chunk is never changed where it has been written.
	chunks []*[chunkSize]byte
	used   int // bytes of the last chunk
}

const (
	chunkBits = 16
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
	maxID     = 255 // what a length byte can say; an account id has at most 128 bytes
)

type rosterRow struct {
	place   uint32 // chunk and offset of the id
	version uint32 // number of the account's last event
}

// RLock keeps the owner from adding until RUnlock.
func (p *Ids) RLock() { p.mu.RLock() }

// RUnlock ends RLock.
func (p *Ids) RUnlock() { p.mu.RUnlock() }

// Len is the number of accounts that the partition has ever had.
func (p *Ids) Len() int { return p.accounts.Len() }

// ID returns the id of an account by its number, which must exist.
func (p *Ids) ID(number uint32) domain.AccountID { return domain.AccountID(p.id(number)) }

// Compare orders two accounts by the bytes of their ids.
func (p *Ids) Compare(a, b uint32) int { return bytes.Compare(p.id(a), p.id(b)) }

// CompareWith orders an account and one of another partition, or of this one, by
// the bytes of their ids.
func (p *Ids) CompareWith(a uint32, other *Ids, b uint32) int {
	return bytes.Compare(p.id(a), other.id(b))
}

// CompareID orders an account and an id by their bytes.
func (p *Ids) CompareID(a uint32, id string) int {
	switch b := p.id(a); {
	case string(b) < id:
		return -1
	case string(b) > id:
		return 1
	}
	return 0
}

// HasPrefix says whether the id of an account begins with prefix.
func (p *Ids) HasPrefix(a uint32, prefix string) bool {
	b := p.id(a)
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// Find returns an account's number, if it has one.
func (p *Ids) Find(id string) (number uint32, ok bool) { return p.find(p.hash(id), id) }

// Add returns the number of an account and gives it the next one if it has
// none. Only the owner of the partition may call it: the Runner, or a test.
func (p *Ids) Add(id string) (number uint32) {
	h := p.hash(id)
	if n, ok := p.find(h, id); ok {
		return n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(h, id)
}

func (p *Ids) hash(id string) uint32 { return uint32(maphash.String(p.seed, id) >> 32) }

func (p *Ids) id(number uint32) []byte {
	place := p.accounts.At(number).place
	b := p.chunks[place>>chunkBits][place&chunkMask:]
	return b[1 : 1+int(b[0])]
}

func (p *Ids) find(h uint32, id string) (number uint32, ok bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	mask := uint32(len(p.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := p.slots[i]
		if s == 0 {
			return 0, false
		}
		if n := uint32(s) - 1; uint32(s>>32) == h && string(p.id(n)) == id {
			return n, true
		}
	}
}

// add takes in an account that is not there; the caller holds mu.
func (p *Ids) add(h uint32, id string) (number uint32) {
	if (p.accounts.Len()+1)*4 > len(p.slots)*3 {
		p.grow()
	}
	number = uint32(p.accounts.Len())
	p.accounts.Append(rosterRow{place: p.store(id[:min(len(id), maxID)])})
	p.enter(uint64(h)<<32 | uint64(number+1))
	return number
}

// store copies an id and returns where it is.
func (p *Ids) store(id string) uint32 {
	if len(p.chunks) == 0 || p.used+1+len(id) > chunkSize {
		p.chunks = append(p.chunks, new([chunkSize]byte))
		p.used = 0
	}
	last, at := len(p.chunks)-1, p.used
	p.chunks[last][at] = byte(len(id))
	copy(p.chunks[last][at+1:], id)
	p.used += 1 + len(id)
	return uint32(last)<<chunkBits | uint32(at)
}

// enter puts an entry into the first free slot from its home.
func (p *Ids) enter(s uint64) {
	mask := uint32(len(p.slots) - 1)
	i := uint32(s>>32) & mask
	for p.slots[i] != 0 {
		i = (i + 1) & mask
	}
	p.slots[i] = s
}

// grow doubles the slots.
func (p *Ids) grow() {
	old := p.slots
	p.slots = make([]uint64, max(64, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			p.enter(s)
		}
	}
}

// reset forgets all accounts.
func (p *Ids) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots, p.chunks, p.used = nil, nil, 0
	p.accounts.Reset()
}

// version is the place of the account's last event number. It belongs to the
// owner of the partition.
func (p *Ids) version(number uint32) *uint32 { return &p.accounts.At(number).version }

// save writes the ids and event numbers.
func (p *Ids) save(w io.Writer) error {
	out := wire.NewWriter(w)
	out.Uint(uint64(p.accounts.Len()))
	for i := range uint32(p.accounts.Len()) {
		out.Bytes(p.id(i))
		out.Uint(uint64(*p.version(i)))
	}
	return out.Flush()
}

// load replaces the ids and event numbers by saved ones.
func (p *Ids) load(r io.Reader) error {
	p.reset()
	in := wire.NewReader(r)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		id, version := in.String(), in.Uint()
		if in.Err() == nil {
			*p.version(p.Add(id)) = uint32(version)
		}
	}
	return in.Err()
}
