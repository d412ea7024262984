package domain

// tree is an ordered map from texts to values that is never changed: put and
// remove give a new one that shares all but the path to the key. So an account
// can be copied for the price of a pointer, however much it keeps. It is a
// treap whose priorities are hashes of the keys: the same keys give the same
// tree. Each node knows the earliest deadline and the oldest marked value below
// it.
type tree[T kept] struct{ root *node[T] }

// kept is what a tree asks of its values.
type kept interface {
	deadline() (at int64, rank int)  // never = none
	kind() uint16                    // a bit for each thing it can be looked for by
	marked() (at int64, marked bool) // whether it counts as marked, and since when
	appendCanonical(w *canonical)    // every field
}

type node[T kept] struct {
	key         string
	value       T
	left, right *node[T]
	priority    uint64

	count    int32    // values below and here
	marks    int32    // marked ones among them
	earliest *node[T] // with the first deadline; nil = none has one
	oldest   *node[T] // marked first; nil = none is marked
	at       int64    // own deadline
	markedAt int64
	rank     int32
	own      uint16 // the value's kind
	kinds    uint16 // of the values below and here
}

// priorityOf spreads FNV-1a over all bits.
func priorityOf(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// get returns the value of a key.
func (t tree[T]) get(key string) (value T, ok bool) {
	for n := t.root; n != nil; {
		switch {
		case key == n.key:
			return n.value, true
		case key < n.key:
			n = n.left
		default:
			n = n.right
		}
	}
	return value, false
}

// put returns a tree in which key has the value.
func (t tree[T]) put(key string, value T) tree[T] { return tree[T]{t.root.put(key, value)} }

// remove returns a tree without the key.
func (t tree[T]) remove(key string) tree[T] { return tree[T]{t.root.remove(key)} }

// len is the number of keys.
func (t tree[T]) len() int {
	if t.root == nil {
		return 0
	}
	return int(t.root.count)
}

// kinds are those of all values.
func (t tree[T]) kinds() uint16 {
	if t.root == nil {
		return 0
	}
	return t.root.kinds
}

// each calls f for all keys in their order, until it says false.
func (t tree[T]) each(f func(key string, value T) bool) { t.root.each(f) }

func (n *node[T]) each(f func(string, T) bool) bool {
	return n == nil || n.left.each(f) && f(n.key, n.value) && n.right.each(f)
}

// behind calls f for the keys behind after whose values are of one of the
// kinds, in their order, until it says false. It looks only where there are
// such.
func (t tree[T]) behind(after string, kinds uint16, f func(key string, value T) bool) {
	t.root.behind(after, kinds, f)
}

func (n *node[T]) behind(after string, kinds uint16, f func(string, T) bool) bool {
	if n == nil || n.kinds&kinds == 0 {
		return true
	}
	if n.key > after {
		if !n.left.behind(after, kinds, f) || n.own&kinds != 0 && !f(n.key, n.value) {
			return false
		}
	}
	return n.right.behind(after, kinds, f)
}

func (n *node[T]) put(key string, value T) *node[T] {
	if n == nil {
		n = &node[T]{key: key, value: value, priority: priorityOf(key)}
		n.note()
		return n.fix()
	}
	c := *n
	switch {
	case key == n.key:
		c.value = value
		c.note()
	case key < n.key:
		c.left = n.left.put(key, value)
		if c.left.priority > c.priority {
			return c.rotateRight()
		}
	default:
		c.right = n.right.put(key, value)
		if c.right.priority > c.priority {
			return c.rotateLeft()
		}
	}
	return c.fix()
}

// rotateRight and rotateLeft lift the child that was just made.

func (n *node[T]) rotateRight() *node[T] {
	up := n.left
	n.left = up.right
	up.right = n.fix()
	return up.fix()
}

func (n *node[T]) rotateLeft() *node[T] {
	up := n.right
	n.right = up.left
	up.left = n.fix()
	return up.fix()
}

func (n *node[T]) remove(key string) *node[T] {
	if n == nil {
		return nil
	}
	if key == n.key {
		return merge(n.left, n.right)
	}
	c := *n
	if key < n.key {
		c.left = n.left.remove(key)
	} else {
		c.right = n.right.remove(key)
	}
	return c.fix()
}

// merge joins two trees of which all keys of a are before those of b.
func merge[T kept](a, b *node[T]) *node[T] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		c := *a
		c.right = merge(a.right, b)
		return c.fix()
	default:
		c := *b
		c.left = merge(a, b.left)
		return c.fix()
	}
}

// note notes the value's deadline, mark and kind.
func (n *node[T]) note() {
	at, rank := n.value.deadline()
	n.at, n.rank, n.own = at, int32(rank), n.value.kind()
	var marked bool
	if n.markedAt, marked = n.value.marked(); !marked {
		n.markedAt = never
	}
}

// fix brings the sums of a new node up to date and returns it.
func (n *node[T]) fix() *node[T] {
	n.count, n.marks, n.earliest, n.oldest, n.kinds = 1, 0, nil, nil, n.own
	if n.at != never {
		n.earliest = n
	}
	if n.markedAt != never {
		n.marks, n.oldest = 1, n
	}
	for _, child := range [2]*node[T]{n.left, n.right} {
		if child == nil {
			continue
		}
		n.kinds |= child.kinds
		n.count += child.count
		n.marks += child.marks
		if e := child.earliest; e != nil && (n.earliest == nil || e.dueBefore(n.earliest)) {
			n.earliest = e
		}
		if o := child.oldest; o != nil && (n.oldest == nil || o.markedBefore(n.oldest)) {
			n.oldest = o
		}
	}
	return n
}

func (n *node[T]) dueBefore(o *node[T]) bool {
	if n.at != o.at {
		return n.at < o.at
	}
	if n.rank != o.rank {
		return n.rank < o.rank
	}
	return n.key < o.key
}

func (n *node[T]) markedBefore(o *node[T]) bool {
	if n.markedAt != o.markedAt {
		return n.markedAt < o.markedAt
	}
	return n.key < o.key
}

// build makes a tree of keys that are in order.
func build[T kept](keys []string, values []T) tree[T] {
	var spine []*node[T] // the way to the last node, by falling priority
	for i, key := range keys {
		n := &node[T]{key: key, value: values[i], priority: priorityOf(key)}
		n.note()
		for len(spine) > 0 && spine[len(spine)-1].priority < n.priority {
			n.left = spine[len(spine)-1].fix()
			spine = spine[:len(spine)-1]
		}
		if len(spine) > 0 {
			spine[len(spine)-1].right = n
		}
		spine = append(spine, n)
	}
	for i := len(spine) - 1; i >= 0; i-- {
		spine[i].fix()
	}
	if len(spine) == 0 {
		return tree[T]{}
	}
	return tree[T]{spine[0]}
}

func (t tree[T]) appendCanonical(w *canonical) {
	w.number(int64(t.len()))
	t.each(func(key string, value T) bool {
		w.text(key)
		value.appendCanonical(w)
		return true
	})
}

// readTree is the inverse of appendCanonical.
func readTree[T kept](r *canonicalReader, read func(*canonicalReader) T) tree[T] {
	n := r.count()
	keys, values := make([]string, 0, n), make([]T, 0, n)
	for range n {
		keys = append(keys, r.text())
		values = append(values, read(r))
		if r.bad || len(keys) > 1 && keys[len(keys)-2] >= keys[len(keys)-1] {
			r.bad = true
			return tree[T]{}
		}
	}
	return build(keys, values)
}
