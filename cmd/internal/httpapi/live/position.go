package live

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/musterhq/muster/eventlog"
)

// Position says up to where the partitions have been read: partition → sequence
// of the last event. Its text is "0:12,1:7".
type Position map[int]uint64

// String is the position's text, by partition.
func (p Position) String() string {
	b := make([]byte, 0, 16*len(p))
	for _, partition := range slices.Sorted(maps.Keys(p)) {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(b, int64(partition), 10), ':')
		b = strconv.AppendUint(b, p[partition], 10)
	}
	return string(b)
}

// ParsePosition reads a position's text. "" is the empty position.
func ParsePosition(text string) (Position, error) {
	p := Position{}
	if text == "" {
		return p, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		left, right, ok := strings.Cut(part, ":")
		partition, err := strconv.ParseUint(left, 10, 16)
		seq, errSeq := strconv.ParseUint(right, 10, 63)
		if !ok || err != nil || errSeq != nil || partition >= eventlog.MaxPartitions {
			return nil, fmt.Errorf("%q is no position: it is written partition:sequence, e.g. 0:12,1:7", text)
		}
		if _, twice := p[int(partition)]; twice {
			return nil, fmt.Errorf("%q is no position: it names partition %d twice", text, partition)
		}
		p[int(partition)] = seq
	}
	return p, nil
}
