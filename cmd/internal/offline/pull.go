package offline

import (
	"iter"

	"github.com/musterhq/muster/eventlog"
)

// pull turns records that are pushed into ones that are asked for.
func pull(records iter.Seq2[eventlog.Record, error]) (next func() (eventlog.Record, bool, error), stop func()) {
	step, stop := iter.Pull2(records)
	return func() (eventlog.Record, bool, error) {
		r, err, ok := step()
		return r, ok && err == nil, err
	}, stop
}
