package memlog

import (
	"slices"

	"github.com/musterhq/muster/eventlog"
)

// index is where the record with the sequence stands, or the first later one.
func (p *partition) index(seq uint64) int {
	i, _ := slices.BinarySearchFunc(p.records, seq, func(r eventlog.Record, seq uint64) int {
		switch {
		case r.Seq < seq:
			return -1
		case r.Seq > seq:
			return 1
		default:
			return 0
		}
	})
	return i
}

// Drop takes one record out of a partition, as a damaged disk would: its
// sequence stays used. It reports whether there was one.
func (l *Log) Drop(partition int, seq uint64) bool {
	return l.change(partition, seq, func(records []eventlog.Record, i int) []eventlog.Record {
		return slices.Delete(records, i, i+1)
	})
}

// Overwrite replaces the bytes of one record, as a damaged disk would. It
// reports whether there was one.
func (l *Log) Overwrite(partition int, seq uint64, data []byte) bool {
	return l.change(partition, seq, func(records []eventlog.Record, i int) []eventlog.Record {
		records[i].Data = slices.Clone(data)
		return records
	})
}

// change gives a partition a changed copy of its records, so that readers keep
// what they have seen.
func (l *Log) change(partition int, seq uint64, with func([]eventlog.Record, int) []eventlog.Record) bool {
	p := l.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(seq)
	if i == len(p.records) || p.records[i].Seq != seq {
		return false
	}
	p.records = with(slices.Clone(p.records), i)
	p.latest = map[string]uint64{}
	for _, r := range p.records {
		p.latest[r.Account] = r.Seq
	}
	p.first = p.last + 1
	if len(p.records) > 0 {
		p.first = p.records[0].Seq
	}
	return true
}
