package app

import (
	"io"
	"sync"

	"github.com/musterhq/muster/domain"
)

// lineWriter returns what writes one line for each event of a group, with one
// write for the group; nil when w is nil. Lines of two partitions never mix.
func lineWriter(w io.Writer) func(int, []*domain.Event) {
	if w == nil {
		return nil
	}
	var mu sync.Mutex
	var buf []byte
	return func(_ int, events []*domain.Event) {
		mu.Lock()
		defer mu.Unlock()
		buf = buf[:0]
		for _, e := range events {
			buf = append(append(buf, domain.LogLine(e)...), '\n')
		}
		_, _ = w.Write(buf) // a log that cannot be written must not stop the judging
	}
}
