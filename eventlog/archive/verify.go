package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/musterhq/muster/eventlog"
)

// Gap is a stretch of sequences of which an archive holds no records.
type Gap struct {
	Partition int    `json:"partition"`
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
}

// Report is what Verify found.
type Report struct {
	Partitions int      `json:"partitions"`
	Segments   int      `json:"segments"` // sealed ones
	Records    int      `json:"records"`
	Bytes      int64    `json:"bytes"`
	Gaps       []Gap    `json:"gaps"`   // within a partition, between its first and last record
	Faults     []*Fault `json:"faults"` // empty: the archive is whole
}

// Verify reads an archive to its last byte and checks all that can be known
// without understanding the records: the manifest's sum, each segment's size,
// SHA-256, place in the chain, index and frames, and that nothing else lies
// among them. check, when it is not nil, gets every record in order, and its
// error is a fault at that record. The error is that of the file system or of
// ctx; damage is in the report.
func Verify(ctx context.Context, dir string, check func(eventlog.Record) error) (*Report, error) {
	r := &Report{Gaps: []Gap{}, Faults: []*Fault{}}
	m, err := ReadManifest(dir)
	var fault *Fault
	if errors.As(err, &fault) {
		r.Faults = append(r.Faults, fault)
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify archive: %w", err)
	}
	v := &verifier{dir: dir, r: r, check: check}
	r.Partitions = len(m.Partitions)
	for i := range m.Partitions {
		if err := v.partition(ctx, &m.Partitions[i], len(m.Partitions)); err != nil {
			return nil, fmt.Errorf("verify archive: %w", err)
		}
	}
	return r, v.strangers(m)
}

type verifier struct {
	dir   string
	r     *Report
	check func(eventlog.Record) error
}

// fault notes an error that is damage, and returns any other.
func (v *verifier) fault(err error, partition int, file string, first, last uint64) error {
	var f *Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
	case errors.Is(err, os.ErrNotExist):
		f = &Fault{What: "it is missing"}
	default:
		return err
	}
	c := *f
	c.File, c.Partition = file, partition
	if c.First == 0 {
		c.First, c.Last = first, last
	}
	v.r.Faults = append(v.r.Faults, &c)
	return nil
}

func (v *verifier) partition(ctx context.Context, p *Partition, partitions int) error {
	at := *p
	at.Segments = nil
	last := uint64(0)
	for _, info := range p.Segments {
		v.r.Segments++
		v.gap(p.Partition, last, info.First)
		last = info.Last
		s, err := OpenSegment(filepath.Join(v.dir, filepath.FromSlash(info.File)), true)
		if err == nil {
			err = v.sealed(ctx, s, &at, info, partitions)
			err = errors.Join(err, s.Close())
		}
		if err := v.fault(err, p.Partition, info.File, info.First, info.Last); err != nil {
			return err
		}
		at.Segments = append(at.Segments, info)
	}
	if p.Open == nil {
		return nil
	}
	s, err := OpenSegment(filepath.Join(v.dir, filepath.FromSlash(p.Open.File)), false)
	if err == nil {
		v.gap(p.Partition, last, s.First())
		err = v.open(ctx, s, &at, p, partitions)
		err = errors.Join(err, s.Close())
	}
	return v.fault(err, p.Partition, p.Open.File, last+1, p.Open.Last)
}

func (v *verifier) gap(partition int, last, next uint64) {
	if last > 0 && next > last+1 {
		v.r.Gaps = append(v.r.Gaps, Gap{Partition: partition, First: last + 1, Last: next - 1})
	}
}

func (v *verifier) sealed(ctx context.Context, s *Segment, at *Partition, info SegmentInfo, partitions int) error {
	v.r.Bytes += s.size
	sum, err := s.Sum()
	if err != nil {
		return err
	}
	if err := fits(s, at, partitions); err != nil {
		return err
	}
	switch {
	case s.size != info.Bytes:
		return &Fault{What: fmt.Sprintf("it has %d bytes; the manifest names %d", s.size, info.Bytes)}
	case sum != info.SHA256:
		// The frames say where, if they can.
		if err := v.records(ctx, s); err != nil {
			return err
		}
		return &Fault{What: "its SHA-256 is not the one that the manifest names"}
	case s.Last() != info.Last || records(s.Frames) != info.Records:
		return &Fault{What: "it holds other records than the manifest names"}
	}
	return v.records(ctx, s)
}

func (v *verifier) open(ctx context.Context, s *Segment, at *Partition, p *Partition, partitions int) error {
	v.r.Bytes += s.size
	if err := fits(s, at, partitions); err != nil {
		return err
	}
	if err := cutOpen(s, p); err != nil {
		// A frame that is no longer whole hides those behind it.
		return err
	}
	return v.records(ctx, s)
}

// records reads all of a segment.
func (v *verifier) records(ctx context.Context, s *Segment) error {
	sc := s.Scan()
	defer sc.Close()
	var b Block
	last := uint64(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := sc.Next(&b)
		if err == io.EOF {
			return v.index(s, sc)
		}
		if err != nil {
			return err
		}
		for _, e := range b.Entries {
			v.gap(s.Header.Partition, last, e.Seq)
			last = e.Seq
			v.r.Records++
			account := sc.names[e.Account]
			what := ""
			if n := eventlog.Partition(account, s.Header.Partitions); n != s.Header.Partition {
				what = fmt.Sprintf("account %q belongs into partition %d", account, n)
			} else if v.check != nil {
				if err := v.check(eventlog.Record{Partition: s.Header.Partition, Seq: e.Seq, Account: account, Data: e.Data, Time: e.Time}); err != nil {
					what = err.Error()
				}
			}
			if what != "" {
				v.r.Faults = append(v.r.Faults, &Fault{File: s.Path, Partition: s.Header.Partition, First: e.Seq, Last: e.Seq, What: what})
			}
		}
	}
}

// index says whether a sealed segment's index names the accounts that are there.
func (v *verifier) index(s *Segment, sc *Scan) error {
	if s.Sealed && !slices.Equal(s.names, sc.names) {
		return &Fault{What: "its index names other accounts than its frames"}
	}
	return nil
}

// strangers finds segment files that the manifest does not name.
func (v *verifier) strangers(m *Manifest) error {
	known := map[string]bool{}
	for _, p := range m.Partitions {
		for _, s := range p.Segments {
			known[s.File] = true
		}
		if p.Open != nil {
			known[p.Open.File] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(v.dir, "*", "*"+sealedExt))
	if err != nil {
		return err
	}
	for _, f := range files {
		name, err := filepath.Rel(v.dir, f)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); !known[name] && !strings.HasPrefix(name, ".") {
			v.r.Faults = append(v.r.Faults, &Fault{File: name, What: "the manifest does not name it: it is of another archive, or of a seal that was interrupted"})
		}
	}
	return nil
}
