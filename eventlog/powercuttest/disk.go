package powercuttest

import (
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// disk is the model: a tree of files in memory, each with what processes see
// and what would be left after a power cut.
type disk struct {
	mu     sync.Mutex // guards the whole tree
	root   *object
	inode  uint64
	full   bool
	unseen bool // full, and says that it has room
	syncs  int
}

// object is a file or a folder.
type object struct {
	inode uint64
	mode  uint32 // permissions
	mtime time.Time
	links uint32

	live, synced []byte // of a file
	lo, hi       int    // the stretch of live that may differ from synced

	names       map[string]*object // of a folder; nil for a file
	syncedNames map[string]*object
}

func newDisk() *disk {
	d := &disk{}
	d.root = d.object(0o755, true)
	return d
}

// object makes a new file or folder that has no name yet; the caller holds mu
// or nobody else knows the disk.
func (d *disk) object(mode uint32, folder bool) *object {
	d.inode++
	o := &object{inode: d.inode, mode: mode & 0o7777, mtime: time.Now(), links: 1}
	if folder {
		o.names, o.syncedNames = map[string]*object{}, map[string]*object{}
	}
	return o
}

// write changes a file's content as processes see it.
func (d *disk) write(o *object, data []byte, off int) syscall.Errno {
	if d.full {
		return syscall.ENOSPC
	}
	end := off + len(data)
	if end > len(o.live) {
		o.extend(end)
	}
	copy(o.live[off:], data)
	o.dirty(off, end)
	return 0
}

// extend makes the content longer, with zeros.
func (o *object) extend(size int) {
	o.dirty(len(o.live), size)
	if size > cap(o.live) {
		grown := make([]byte, len(o.live), max(size, 2*cap(o.live)))
		copy(grown, o.live)
		o.live = grown
	}
	old := len(o.live)
	o.live = o.live[:size]
	clear(o.live[old:])
}

// truncate cuts or extends a file.
func (d *disk) truncate(o *object, size int) {
	if size > len(o.live) {
		o.extend(size)
		return
	}
	o.live = o.live[:size]
	o.dirty(size, size)
}

func (o *object) dirty(from, to int) {
	if o.lo == o.hi {
		o.lo, o.hi = from, to
	} else {
		o.lo, o.hi = min(o.lo, from), max(o.hi, to)
	}
	o.mtime = time.Now()
}

// sync makes a file's content, or a folder's names, outlive a power cut.
func (d *disk) sync(o *object) {
	d.syncs++
	if o.names != nil {
		o.syncedNames = maps.Clone(o.names)
		return
	}
	o.synced = merge(o.synced, o.live, o.lo, o.hi)
	o.lo, o.hi = 0, 0
}

// merge returns live, reusing synced up to where they may differ.
func merge(synced, live []byte, lo, hi int) []byte {
	same := min(len(synced), len(live))
	if lo != hi {
		same = min(same, lo)
	}
	return append(synced[:same], live[same:]...)
}

// cut throws away what was not synced. With chance, it keeps some of it, as a
// disk may have written any of it already: of each file nothing, all, or some
// pages; of each folder each new name or not.
func (d *disk) cut(chance *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.root = d.survivor(d.root, chance, map[*object]*object{})
	d.full = false
}

// survivor is what a cut leaves of an object.
func (d *disk) survivor(o *object, chance *rand.Rand, done map[*object]*object) *object {
	if s := done[o]; s != nil {
		return s
	}
	s := d.object(o.mode, o.names != nil)
	s.mtime = o.mtime
	done[o] = s
	if o.names == nil {
		s.live = o.left(chance)
		s.synced = append([]byte{}, s.live...)
		return s
	}
	for name, child := range o.syncedNames {
		s.names[name] = d.survivor(child, chance, done)
	}
	if chance != nil {
		for name, child := range o.names {
			if o.syncedNames[name] != child && chance.IntN(2) == 0 {
				s.names[name] = d.survivor(child, chance, done)
			}
		}
	}
	s.syncedNames = maps.Clone(s.names)
	return s
}

const page = 4096

// left is what a cut leaves of a file's content.
func (o *object) left(chance *rand.Rand) []byte {
	left := append([]byte{}, o.synced...)
	if chance == nil || o.lo == o.hi && len(o.live) == len(o.synced) {
		return left
	}
	switch chance.IntN(3) {
	case 0:
		return left
	case 1:
		return append([]byte{}, o.live...)
	}
	if len(left) > len(o.live) {
		left = left[:len(o.live)]
	}
	for at := o.lo / page * page; at < len(o.live); at += page {
		if chance.IntN(2) == 0 {
			continue
		}
		end := min(at+page, len(o.live))
		if end > len(left) {
			left = append(left, make([]byte, end-len(left))...)
		}
		copy(left[at:end], o.live[at:end])
	}
	return left
}
