package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/musterhq/muster/eventlog"
)

// Archive is an archive opened for reading. It has the reading half of an
// [eventlog.Log], so whatever folds a log folds an archive. What it reads is
// checked by CRC; only Verify checks the sums of whole files.
type Archive struct {
	Dir      string
	Manifest Manifest

	parts [][]*Segment
}

// OpenArchive opens an archive for reading. Segments that do not fit the
// manifest are refused with a *Fault. An archive that is being written may be
// read; it is as it was when it was opened.
func OpenArchive(dir string) (*Archive, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	a := &Archive{Dir: dir, Manifest: *m, parts: make([][]*Segment, len(m.Partitions))}
	for i := range m.Partitions {
		if err := a.openPartition(i); err != nil {
			return nil, errors.Join(fmt.Errorf("open archive: %w", err), a.Close())
		}
	}
	return a, nil
}

func (a *Archive) openPartition(n int) error {
	p := &a.Manifest.Partitions[n]
	at := *p
	at.Segments = nil
	for _, info := range p.Segments {
		s, err := OpenSegment(filepath.Join(a.Dir, filepath.FromSlash(info.File)), true)
		if err != nil {
			return err
		}
		a.parts[n] = append(a.parts[n], s)
		if err := fits(s, &at, len(a.Manifest.Partitions)); err != nil {
			return err
		}
		if s.size != info.Bytes || s.Last() != info.Last || records(s.Frames) != info.Records {
			return &Fault{File: info.File, Partition: n, First: info.First, Last: info.Last, What: "it is another segment than the manifest names: size, records or last sequence differ"}
		}
		at.Segments = append(at.Segments, info)
	}
	if p.Open == nil {
		return nil
	}
	s, err := OpenSegment(filepath.Join(a.Dir, filepath.FromSlash(p.Open.File)), false)
	if err != nil {
		return err
	}
	a.parts[n] = append(a.parts[n], s)
	if err := fits(s, &at, len(a.Manifest.Partitions)); err != nil {
		return err
	}
	return cutOpen(s, p)
}

// cutOpen leaves out of an open segment what the manifest does not name: it may
// be torn.
func cutOpen(s *Segment, p *Partition) error {
	for i, f := range s.Frames {
		if f.Offset+f.Length == p.Open.Bytes && f.Last == p.Open.Last {
			s.Frames = slices.Clip(s.Frames[:i+1])
			return nil
		}
	}
	return &Fault{File: p.Open.File, Partition: p.Partition, First: s.First(), Last: p.Open.Last, What: "it has less than the manifest names, or other frames"}
}

// fits says whether a segment is the next one of a partition.
func fits(s *Segment, p *Partition, partitions int) error {
	what := ""
	switch h := s.Header; {
	case h.Partition != p.Partition || h.Partitions != partitions:
		what = fmt.Sprintf("it is of partition %d of %d", h.Partition, h.Partitions)
	case h.Incarnation != p.Incarnation:
		what = "it is of a stream that was created at another time"
	case h.Previous != p.previous():
		what = "it does not name the segment before it"
	case len(s.Frames) == 0 || s.Frames[0].First != h.First:
		what = "its first record is not the one that its header names"
	case filepath.Base(s.Path) != filepath.Base(segmentName(p.Partition, h.First, filepath.Ext(s.Path))):
		what = fmt.Sprintf("it begins with sequence %d", h.First)
	default:
		return nil
	}
	return &Fault{File: s.Path, Partition: p.Partition, What: what}
}

func records(frames []Frame) (n int) {
	for _, f := range frames {
		n += f.Records
	}
	return n
}

// Close closes the files.
func (a *Archive) Close() error {
	var errs []error
	for _, p := range a.parts {
		for _, s := range p {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Partitions is the number of partitions.
func (a *Archive) Partitions() int { return len(a.parts) }

// Segments are a partition's segments, oldest first.
func (a *Archive) Segments(partition int) []*Segment { return a.parts[partition] }

// Info is what the archive holds of a partition.
func (a *Archive) Info(_ context.Context, partition int) (eventlog.Info, error) {
	info := eventlog.Info{Incarnation: a.Manifest.Partitions[partition].Incarnation}
	for i, s := range a.parts[partition] {
		if i == 0 {
			info.First = s.First()
		}
		info.Last = s.Last()
		info.Messages += uint64(records(s.Frames))
	}
	return info, nil
}

// Read yields the partition's records with Seq > after, oldest first. Their
// bytes may be kept. An error ends it, a *Fault when the archive is damaged.
func (a *Archive) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for _, s := range a.parts[partition] {
			if s.Last() <= after {
				continue
			}
			if !s.read(ctx, after, nil, yield) {
				return
			}
		}
	}
}

// Account yields one account's records with Seq >= from, oldest first, reading
// only the frames that hold some.
func (a *Archive) Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	partition := eventlog.Partition(account, len(a.parts))
	return func(yield func(eventlog.Record, error) bool) {
		for _, s := range a.parts[partition] {
			if s.Last() < from {
				continue
			}
			if !s.read(ctx, max(from, 1)-1, &account, yield) {
				return
			}
		}
	}
}

// Follow is Read: an archive that was opened does not grow.
func (a *Archive) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return a.Read(ctx, partition, after)
}

// read yields a segment's records; it returns false when the reading is over.
func (s *Segment) read(ctx context.Context, after uint64, account *string, yield func(eventlog.Record, error) bool) bool {
	sc := s.Scan()
	defer sc.Close()
	frames := s.wanted(after, account)
	for _, n := range frames {
		if err := ctx.Err(); err != nil {
			return yield(eventlog.Record{}, err) && false
		}
		var b Block // its memory goes to the caller
		err := sc.Seek(n)
		if err == nil {
			err = sc.Next(&b)
		}
		if err != nil && err != io.EOF {
			return yield(eventlog.Record{}, err) && false
		}
		for _, e := range b.Entries {
			r := eventlog.Record{Partition: s.Header.Partition, Seq: e.Seq, Account: sc.names[e.Account], Data: e.Data, Time: e.Time}
			if r.Seq <= after || account != nil && r.Account != *account {
				continue
			}
			if !yield(r, nil) {
				return false
			}
		}
	}
	return true
}

// wanted are the numbers of the frames that may hold what is asked for.
func (s *Segment) wanted(after uint64, account *string) []int {
	var all []int
	if account != nil && s.Sealed {
		all, _ = s.Holds(*account)
	} else {
		for n := range s.Frames {
			all = append(all, n)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(n int) bool { return s.Frames[n].Last <= after })
}
