package sim

// entry is when an account, or what befalls the fleet, is to be looked at.
type entry struct {
	at int64
	i  int32 // an account's index; negative: an incident
}

func (e entry) before(o entry) bool { return e.at < o.at || e.at == o.at && e.i < o.i }

// heap gives entries out by time, those of the same time by index.
type heap struct{ list []entry }

func (h *heap) grow(n int) { h.list = make([]entry, 0, n) }

func (h *heap) push(at int64, i int32) {
	h.list = append(h.list, entry{at, i})
	for n := len(h.list) - 1; n > 0; {
		up := (n - 1) / 4
		if !h.list[n].before(h.list[up]) {
			return
		}
		h.list[n], h.list[up] = h.list[up], h.list[n]
		n = up
	}
}

// pop returns the first entry. The heap must not be empty.
func (h *heap) pop() (at int64, i int32) {
	first := h.list[0]
	last := len(h.list) - 1
	h.list[0] = h.list[last]
	h.list = h.list[:last]
	for n := 0; ; {
		least := n
		for c := 4*n + 1; c <= 4*n+4 && c < last; c++ {
			if h.list[c].before(h.list[least]) {
				least = c
			}
		}
		if least == n {
			return first.at, first.i
		}
		h.list[n], h.list[least] = h.list[least], h.list[n]
		n = least
	}
}
