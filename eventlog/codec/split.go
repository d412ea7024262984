package codec

// Split appends the entries of a record to dst, in their order: each is the bytes
// of a key and its value, parts of the record. It looks at neither; the record's
// head and the entries, one behind the other, are the record. An error is an
// ErrMalformed.
func Split(record []byte, dst [][]byte) ([][]byte, error) {
	c := cursor{b: record}
	n := c.mapLen()
	if c.err != nil {
		return dst, c.err
	}
	return SplitEntries(record[c.i:], n, dst)
}

// SplitEntries is Split for n entries without the head of a map.
func SplitEntries(b []byte, n int, dst [][]byte) ([][]byte, error) {
	c := cursor{b: b}
	for ; n > 0 && c.err == nil; n-- {
		at := c.i
		c.text()
		c.skip(1)
		if c.err == nil {
			dst = append(dst, b[at:c.i:c.i])
		}
	}
	if c.err == nil && c.i != len(b) {
		c.err = malformed("%d bytes follow the last entry", len(b)-c.i)
	}
	return dst, c.err
}
