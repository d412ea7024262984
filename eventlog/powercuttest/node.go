package powercuttest

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node shows one object to the kernel.
type node struct {
	fs.Inode
	disk *disk
	o    *object
}

var (
	_ fs.NodeLookuper   = (*node)(nil)
	_ fs.NodeReaddirer  = (*node)(nil)
	_ fs.NodeMkdirer    = (*node)(nil)
	_ fs.NodeCreater    = (*node)(nil)
	_ fs.NodeUnlinker   = (*node)(nil)
	_ fs.NodeRmdirer    = (*node)(nil)
	_ fs.NodeRenamer    = (*node)(nil)
	_ fs.NodeOpener     = (*node)(nil)
	_ fs.NodeReader     = (*node)(nil)
	_ fs.NodeWriter     = (*node)(nil)
	_ fs.NodeFsyncer    = (*node)(nil)
	_ fs.NodeFlusher    = (*node)(nil)
	_ fs.NodeAllocater  = (*node)(nil)
	_ fs.NodeGetattrer  = (*node)(nil)
	_ fs.NodeSetattrer  = (*node)(nil)
	_ fs.NodeStatfser   = (*node)(nil)
	_ fs.FileFsyncdirer = (*handle)(nil)
)

// handle is one open file; sync says that its writes are synchronous.
type handle struct {
	n    *node
	sync bool
}

func (n *node) lock() func() {
	n.disk.mu.Lock()
	return n.disk.mu.Unlock
}

// child returns the inode of an object; the caller holds the lock.
func (n *node) child(ctx context.Context, o *object) *fs.Inode {
	mode := uint32(syscall.S_IFREG)
	if o.names != nil {
		mode = syscall.S_IFDIR
	}
	return n.NewInode(ctx, &node{disk: n.disk, o: o}, fs.StableAttr{Mode: mode, Ino: o.inode})
}

func (o *object) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink, out.Size = o.inode, o.mode, o.links, uint64(len(o.live))
	out.Blksize, out.Blocks = page, uint64(len(o.live)+511)/512
	out.SetTimes(&o.mtime, &o.mtime, &o.mtime)
	if o.names != nil {
		out.Mode |= syscall.S_IFDIR
	} else {
		out.Mode |= syscall.S_IFREG
	}
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	o := n.o.names[name]
	if o == nil {
		return nil, syscall.ENOENT
	}
	o.attr(&out.Attr)
	return n.child(ctx, o), 0
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	defer n.lock()()
	var entries []fuse.DirEntry
	for name, o := range n.o.names {
		mode := uint32(syscall.S_IFREG)
		if o.names != nil {
			mode = syscall.S_IFDIR
		}
		entries = append(entries, fuse.DirEntry{Name: name, Mode: mode, Ino: o.inode})
	}
	return fs.NewListDirStream(entries), 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	if n.disk.full {
		return nil, syscall.ENOSPC
	}
	o := n.disk.object(mode, true)
	n.o.names[name] = o
	o.attr(&out.Attr)
	return n.child(ctx, o), 0
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	defer n.lock()()
	if n.disk.full {
		return nil, nil, 0, syscall.ENOSPC
	}
	o := n.disk.object(mode, false)
	n.o.names[name] = o
	o.attr(&out.Attr)
	inode := n.child(ctx, o)
	return inode, &handle{inode.Operations().(*node), synchronous(flags)}, 0, 0
}

func synchronous(flags uint32) bool { return flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 }

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	defer n.lock()()
	if o := n.o.names[name]; o != nil {
		o.links--
	}
	delete(n.o.names, name)
	return 0
}

func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	defer n.lock()()
	if o := n.o.names[name]; o != nil && len(o.names) > 0 {
		return syscall.ENOTEMPTY
	}
	delete(n.o.names, name)
	return 0
}

func (n *node) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	defer n.lock()()
	parent, ok := to.EmbeddedInode().Operations().(*node)
	if !ok || flags != 0 {
		return syscall.EINVAL
	}
	if old := parent.o.names[newName]; old != nil {
		if len(old.names) > 0 {
			return syscall.ENOTEMPTY
		}
		old.links--
	}
	parent.o.names[newName] = n.o.names[name]
	delete(n.o.names, name)
	return 0
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	defer n.lock()()
	if flags&syscall.O_TRUNC != 0 {
		n.disk.truncate(n.o, 0)
	}
	return &handle{n, synchronous(flags)}, 0, 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	defer n.lock()()
	if off >= int64(len(n.o.live)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, n.o.live[off:])]), 0
}

func (n *node) Write(_ context.Context, f fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	defer n.lock()()
	if errno := n.disk.write(n.o, data, int(off)); errno != 0 {
		return 0, errno
	}
	if h, ok := f.(*handle); ok && h.sync {
		n.disk.sync(n.o)
	}
	return uint32(len(data)), 0
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	defer n.lock()()
	n.disk.sync(n.o)
	return 0
}

func (h *handle) Fsyncdir(context.Context, uint32) syscall.Errno {
	defer h.n.lock()()
	h.n.disk.sync(h.n.o)
	return 0
}

// Flush comes with every close(2); closing is no syncing.
func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (n *node) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	defer n.lock()()
	if mode != 0 {
		return syscall.EOPNOTSUPP
	}
	if end := int(off + size); end > len(n.o.live) {
		n.disk.truncate(n.o, end)
	}
	return 0
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	n.o.attr(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	if size, ok := in.GetSize(); ok {
		n.disk.truncate(n.o, int(size))
	}
	if mode, ok := in.GetMode(); ok {
		n.o.mode = mode & 0o7777
	}
	if at, ok := in.GetMTime(); ok {
		n.o.mtime = at
	}
	n.o.attr(&out.Attr)
	return 0
}

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	defer n.lock()()
	const blocks = 64 << 30 / page
	*out = fuse.StatfsOut{Blocks: blocks, Bfree: blocks, Bavail: blocks, Files: 1 << 20, Ffree: 1 << 20, Bsize: page, Frsize: page, NameLen: 255}
	if n.disk.full && !n.disk.unseen {
		out.Bfree, out.Bavail = 0, 0
	}
	return 0
}

// cacheFor is how long the kernel may believe what it was told; it is the only
// one that changes the tree.
var cacheFor = time.Second
