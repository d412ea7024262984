package telemetry

import (
	"strings"
	"sync"
)

// other stands for the values of a label that have no series of their own.
const other = "other"

// bound keeps the number of series of one metric within a cap. The first values
// that come have a series of their own and keep it; what comes beyond is summed up.
// So a counter's series never falls because another one has pushed it out.
type bound struct {
	most int

	mu     sync.Mutex
	known  map[string]bool
	beyond map[string]bool // the values that have none; counted up to most
}

func newBound(most int) *bound {
	return &bound{most: most, known: map[string]bool{}, beyond: map[string]bool{}}
}

// sum adds up values by labels: those of a series of their own, and the rest with
// "other" for each label.
func (b *bound) sum(labels int, each func(add func(value float64, labels ...string))) []series {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []series
	index := map[string]int{}
	rest := series{labels: make([]string, labels)}
	for i := range rest.labels {
		rest.labels[i] = other
	}
	overflow := false
	each(func(value float64, labels ...string) {
		key := strings.Join(labels, "\x00")
		if !b.known[key] {
			if len(b.known) >= b.most {
				if len(b.beyond) < b.most {
					b.beyond[key] = true
				}
				rest.value += value
				overflow = true
				return
			}
			b.known[key] = true
		}
		i, there := index[key]
		if !there {
			i = len(out)
			index[key] = i
			clean := make([]string, len(labels))
			for j, l := range labels {
				clean[j] = strings.ToValidUTF8(l, "�")
			}
			out = append(out, series{labels: clean})
		}
		out[i].value += value
	})
	if overflow {
		out = append(out, rest)
	}
	return out
}

// capped is how many values are summed up.
func (b *bound) capped() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.beyond)
}

// series is one value with its labels.
type series struct {
	labels []string
	value  float64
}
