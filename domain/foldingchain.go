package domain

import "encoding/binary"

// chunk is a piece of memory for notes; 0 is none. It begins with the number of
// the chunk behind it.
type chunk uint32

const (
	chunkSize = 512
	chunkHead = 4
	slabSize  = 512 // chunks that are made at once
)

// chunks gives out memory for notes, and takes it back.
type chunks struct {
	slabs [][]byte
	spare []chunk
}

func (cs *chunks) take() chunk {
	if len(cs.spare) == 0 {
		for i := range slabSize {
			cs.spare = append(cs.spare, chunk((len(cs.slabs)+1)*slabSize-i))
		}
		cs.slabs = append(cs.slabs, make([]byte, slabSize*chunkSize))
	}
	last := len(cs.spare) - 1
	c := cs.spare[last]
	cs.spare = cs.spare[:last]
	return c
}

func (cs *chunks) free(c chunk) { cs.spare = append(cs.spare, c) }

// at is all of a chunk.
func (cs *chunks) at(c chunk) []byte {
	slab, begin := cs.slabs[(c-1)/slabSize], int((c-1)%slabSize)*chunkSize
	return slab[begin : begin+chunkSize : begin+chunkSize]
}

// chain is bytes that stand in several chunks, one after the other.
type chain struct {
	tail        []byte // the last chunk, as far as it is used
	size        int    // of all bytes
	first, last chunk
}

// add appends a note.
func (c *chain) add(b *Bench, e *Brief) {
	if n := len(c.tail); cap(c.tail)-n >= e.mostNote() {
		c.tail = e.appendNote(c.tail)
		c.size += len(c.tail) - n
		return
	}
	b.out = e.appendNote(b.out[:0])
	c.write(b, b.out)
}

// write appends bytes.
func (c *chain) write(b *Bench, p []byte) {
	c.size += len(p)
	for {
		n := min(len(p), cap(c.tail)-len(c.tail))
		c.tail = append(c.tail, p[:n]...)
		if p = p[n:]; len(p) == 0 {
			return
		}
		next := b.chunks.take()
		if c.last == 0 {
			c.first = next
		} else {
			binary.LittleEndian.PutUint32(b.chunks.at(c.last), uint32(next))
		}
		c.last, c.tail = next, b.chunks.at(next)[:chunkHead]
	}
}

// drain appends all bytes to p, and leaves the chain empty.
func (c *chain) drain(b *Bench, p []byte) []byte {
	for one := c.first; one != 0; {
		all := b.chunks.at(one)
		next := chunk(binary.LittleEndian.Uint32(all))
		if one == c.last { // what its head says is of an earlier chain
			all, next = c.tail, 0
		}
		p = append(p, all[chunkHead:]...)
		b.chunks.free(one)
		one = next
	}
	*c = chain{}
	return p
}
