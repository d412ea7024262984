package offline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
)

// Lost is a stretch of sequences whose records a stream does not have and an
// archive does.
type Lost struct {
	Partition int      `json:"partition"`
	First     uint64   `json:"first"`
	Last      uint64   `json:"last"`
	Records   int      `json:"records"`
	Accounts  []string `json:"accounts"` // whose records they are, sorted
}

// AheadError says that an archive ends behind its stream: acknowledged events
// are lost there. A stream that went on like that would give their sequences
// to other events.
type AheadError struct {
	Dir  string
	Lost []Lost
}

// maxInSentence is how many accounts a sentence names.
const maxInSentence = 8

// Error names the ranges, the accounts, and what to do.
func (e *AheadError) Error() string {
	records, accounts, ranges := 0, map[string]bool{}, make([]string, len(e.Lost))
	for i, l := range e.Lost {
		records += l.Records
		ranges[i] = fmt.Sprintf("sequences %d to %d of partition %d", l.First, l.Last, l.Partition)
		for _, id := range l.Accounts {
			accounts[id] = true
		}
	}
	return fmt.Sprintf("the archive %s is ahead of the stream, which has lost %d acknowledged events: %s, of %s; put them back with `muster repair --archive %[1]s --data DIR`",
		e.Dir, records, strings.Join(ranges, ", "), named(accounts))
}

// named names accounts for people, the first ones when there are many.
func named(accounts map[string]bool) string {
	ids := slices.Sorted(maps.Keys(accounts))
	more := ""
	if n := len(ids) - maxInSentence; n > 0 {
		ids, more = ids[:maxInSentence], fmt.Sprintf(" and %d more", n)
	}
	word := "accounts "
	if len(ids) == 1 {
		word = "account "
	}
	for i := range ids {
		ids[i] = fmt.Sprintf("%q", ids[i])
	}
	return word + strings.Join(ids, ", ") + more
}

// ahead reads what an archive has behind the ends of the streams.
func ahead(ctx context.Context, dir string, streams []eventlog.Info) error {
	a, err := archive.OpenArchive(dir)
	if err != nil {
		return err
	}
	defer a.Close()
	out := &AheadError{Dir: dir}
	for p, info := range streams {
		var l lostRange
		for r, err := range a.Read(ctx, p, info.Last) {
			if err != nil {
				return fmt.Errorf("read what the archive has behind the stream's end: %w", err)
			}
			l.add(r)
		}
		if l.Records > 0 {
			out.Lost = append(out.Lost, l.result())
		}
	}
	return out
}

// lostRange gathers a Lost.
type lostRange struct {
	Lost
	ids map[string]bool
}

func (l *lostRange) add(r eventlog.Record) {
	if l.Records == 0 {
		l.Lost, l.ids = Lost{Partition: r.Partition, First: r.Seq}, map[string]bool{}
	}
	l.Last = r.Seq
	l.Records++
	l.ids[r.Account] = true
}

func (l *lostRange) result() Lost {
	l.Accounts = slices.Sorted(maps.Keys(l.ids))
	return l.Lost
}
