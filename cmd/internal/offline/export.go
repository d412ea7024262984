package offline

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// Filter says which events are exported. Zero fields allow all.
type Filter struct {
	Account domain.AccountID
	Machine string            // of the account
	Labels  map[string]string // that the account has by then
	Trigger string
	From    int64 // unix ns, by the events' own times
	To      int64 // exclusive
}

// Sink takes exported events, oldest first.
type Sink interface {
	Add(*Exported) error
	Close() error // writes what is left; it does not close what it writes to
}

// Exported is an event with what is known of its account. It may be kept until
// the next one comes.
type Exported struct {
	*domain.Event
	Partition int
	Sequence  uint64

	// The account's, as of this event; mode as it was registered.
	Machine, Mode string
	Labels        map[string]string
	First         bool // the first exported event of the account
}

// Formats are the names that NewSink takes.
func Formats() []string { return []string{"jsonl", "said", "csv", "parquet", "ocel"} }

// NewSink makes what writes a format.
func NewSink(format string, w io.Writer) (Sink, error) {
	switch format {
	case "jsonl":
		return &lineSink{w: bufio.NewWriterSize(w, 64<<10)}, nil
	case "said":
		return &lineSink{w: bufio.NewWriterSize(w, 64<<10), asSaid: true}, nil
	case "csv":
		return newCSV(w), nil
	case "parquet":
		return newParquet(w), nil
	case "ocel":
		return newOCEL(w), nil
	}
	return nil, fmt.Errorf("the format is %q; it is one of %s", format, strings.Join(Formats(), ", "))
}

// Export gives the events of a history to a sink, in the order in which they
// were recorded, and returns how many there were.
func Export(ctx context.Context, h History, f Filter, to Sink) (n int64, err error) {
	heads := make([]*head, h.Partitions())
	for p := range heads {
		one := &head{partition: p}
		one.next, one.stop = pull(h.Read(ctx, p, 0))
		defer one.stop()
		if err := one.advance(); err != nil {
			return 0, err
		}
		heads[p] = one
	}
	known := map[domain.AccountID]*Exported{}
	for {
		first := earliest(heads)
		if first == nil {
			break
		}
		if x := f.pass(known, first); x != nil {
			if err := to.Add(x); err != nil {
				return n, fmt.Errorf("export: %w", err)
			}
			n++
		}
		if err := first.advance(); err != nil {
			return n, err
		}
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if err := to.Close(); err != nil {
		return n, fmt.Errorf("export: %w", err)
	}
	return n, nil
}

// head is the next event of a partition.
type head struct {
	partition int
	next      func() (eventlog.Record, bool, error)
	stop      func()
	event     *domain.Event // nil: there is none any more
	seq       uint64
}

func (h *head) advance() error {
	r, ok, err := h.next()
	if err != nil {
		return fmt.Errorf("export partition %d: %w", h.partition, err)
	}
	if !ok {
		h.event = nil
		return nil
	}
	e, err := codec.Decode(r.Data)
	if err != nil {
		return fmt.Errorf("export partition %d, sequence %d, account %q: %w", h.partition, r.Seq, r.Account, err)
	}
	h.event, h.seq = &e, r.Seq
	return nil
}

// earliest is the head that was recorded first.
func earliest(heads []*head) (first *head) {
	for _, h := range heads {
		if h.event != nil && (first == nil || h.event.Recorded < first.event.Recorded) {
			first = h
		}
	}
	return first
}

// pass notes what an event says of its account, and returns it when it is wanted.
func (f *Filter) pass(known map[domain.AccountID]*Exported, h *head) *Exported {
	e := h.event
	if f.Account != "" && e.Account != f.Account {
		return nil
	}
	x := known[e.Account]
	if x == nil {
		x = &Exported{Mode: e.Mode, Labels: e.Labels, First: true}
		known[e.Account] = x
	}
	if e.Machine != "" {
		x.Machine = e.Machine
	}
	if e.Trigger == "set_labels" && e.Outcome == domain.Applied {
		x.Labels = labelsOf(e)
	}
	if f.Machine != "" && x.Machine != f.Machine || f.Trigger != "" && e.Trigger != f.Trigger || f.From != 0 && e.At < f.From || f.To != 0 && e.At >= f.To {
		return nil
	}
	for k, v := range f.Labels {
		if x.Labels[k] != v {
			return nil
		}
	}
	out := *x
	x.First = false
	out.Event, out.Partition, out.Sequence = e, h.partition, h.seq
	return &out
}

// labelsOf are the labels that a set_labels gives.
func labelsOf(e *domain.Event) map[string]string {
	given, _ := e.Data["labels"].(map[string]any)
	labels := make(map[string]string, len(given))
	for k, v := range given {
		if text, ok := v.(string); ok {
			labels[k] = text
		}
	}
	return labels
}

// lineSink writes trace lines, as try and import take them: all that was judged,
// with the times of recording, so that the history comes out as it was; or, when
// asSaid is set, what publishers said and no clock makes again of it. The first
// line of an account registers it.
type lineSink struct {
	w      *bufio.Writer
	buf    []byte
	asSaid bool
}

func (s *lineSink) Add(x *Exported) error {
	if s.asSaid && x.Own() {
		return nil
	}
	said := x.Said()
	if !s.asSaid {
		said.Recorded = x.Recorded
	}
	if _, told := said.Data["worker"]; said.NotWorker && !told {
		said.Data = maps.Clone(said.Data)
		if said.Data == nil {
			said.Data = domain.Data{}
		}
		said.Data["worker"] = false
	}
	if x.First || x.Version == 1 {
		said.Machine, said.Mode, said.Labels = x.Machine, x.Mode, x.Labels
	}
	s.buf = append(said.AppendJSON(s.buf[:0]), '\n')
	_, err := s.w.Write(s.buf)
	return err
}

func (s *lineSink) Close() error { return s.w.Flush() }
