// Package merge reads one page out of several partitions, each of which has its
// own part of the rows in the order of their keys.
//
// It owns the order in which parts are asked and the bound on how often: a page
// may come short, even empty, when much had to be looked at for little, and
// still have a next one. It holds no rows and cannot fail.
package merge

// Batch is what one partition has found behind a key.
type Batch[T any] struct {
	Found   []T    // their keys rise, and all lie behind the key that was asked with
	Through string // every row up to this key has been looked at
	Done    bool   // and there is none behind it
}

// Next asks one partition for the rows behind a key, some at a time. It may
// find none and still not be done.
type Next[T any] func(part int, after string, most int) Batch[T]

// Page returns up to limit rows behind after, in the order of their keys, and
// the key behind which the next page begins, "" when this is the last. Each
// part is asked at most tries times in a row without a row.
func Page[T any](parts, tries int, after string, limit int, key func(*T) string, next Next[T]) (rows []T, rest string) {
	walks := make([]walk[T], parts)
	for i := range walks {
		walks[i].through = after
	}
	most := 1 + 2*limit/max(1, parts)
	for {
		var first *walk[T]
		horizon, bounded := "", false // up to where all parts have been looked at
		for i := range walks {
			w := &walks[i]
			w.fill(i, tries, most, next)
			switch {
			case len(w.found) > 0 && (first == nil || key(&w.found[0]) < key(&first.found[0])):
				first = w
			case len(w.found) == 0 && !w.done && (!bounded || w.through < horizon):
				horizon, bounded = w.through, true
			}
		}
		if first == nil || bounded && horizon < key(&first.found[0]) {
			return rows, horizon
		}
		if len(rows) == limit {
			return rows, key(&rows[limit-1])
		}
		rows = append(rows, first.found[0])
		first.found = first.found[1:]
	}
}

// walk is how far one partition has been read.
type walk[T any] struct {
	found   []T
	through string
	done    bool
	stuck   bool // it has been asked as often as it may
}

func (w *walk[T]) fill(part, tries, most int, next Next[T]) {
	for try := 0; len(w.found) == 0 && !w.done && !w.stuck; try++ {
		if w.stuck = try == tries; w.stuck {
			return
		}
		b := next(part, w.through, most)
		w.found, w.through, w.done = b.Found, b.Through, b.Done
	}
}
