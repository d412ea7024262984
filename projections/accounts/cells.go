package accounts

// cellKey is all that accounts can be filtered and counted by, but for their ids
// and times, in the numbers of a shard's tables.
type cellKey struct {
	labels, source      uint32
	state, needs, conds uint16
	desired             uint8
	damaged             bool
}

func (r *row) key() cellKey {
	return cellKey{r.labels, r.source, r.state, r.needs, r.conds, r.desired, r.flags&flagDamaged != 0}
}

// cell counts the accounts that have a key in common. A fleet has some hundreds
// or thousands of them, so that counting is a walk over these.
type cell struct {
	key cellKey
	n   int // 0: the cell is free
}

// cells are the cells of a shard, which hold the accounts shown.
type cells struct {
	numbers map[cellKey]uint32
	list    []cell
	free    []uint32
}

// enter counts one more account of a key and returns the number of its cell.
func (c *cells) enter(k cellKey) uint32 {
	number, ok := c.numbers[k]
	if !ok {
		number = c.vacant()
		c.numbers[k] = number
		c.list[number].key = k
	}
	c.list[number].n++
	return number
}

func (c *cells) vacant() (number uint32) {
	if last := len(c.free) - 1; last >= 0 {
		number, c.free = c.free[last], c.free[:last]
		return number
	}
	c.list = append(c.list, cell{})
	return uint32(len(c.list) - 1)
}

// leave counts one account less in a cell.
func (c *cells) leave(number uint32) {
	found := &c.list[number]
	if found.n--; found.n == 0 {
		delete(c.numbers, found.key)
		c.free = append(c.free, number)
	}
}
