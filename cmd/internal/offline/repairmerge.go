package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
)

// origin is where a record was found.
type origin int

const (
	fromStream origin = iota
	fromArchive
	fromCopy // of a damaged block
)

// found is one record of a history that is put together again.
type found struct {
	blockscan.Stored
	origin origin
}

// merge puts a partition's history together from the stored blocks, the archive,
// and, where neither has a record, copies of damaged blocks. Where blocks and
// archive both have one they must agree. allWhole says whether the blocks hold
// nothing but whole records; it is set when the merge has ended.
func (r *repair) merge(ctx context.Context, p int, allWhole *bool, use func(found) error) error {
	streamNext, stopStream := iter.Pull2(r.blocks(p, allWhole))
	defer stopStream()
	archiveNext, stopArchive := pull(r.a.Read(ctx, p, 0))
	defer stopArchive()
	copies, err := r.copies(p)
	if err != nil {
		return err
	}
	x, err1, okX := streamNext()
	y, okY, err2 := archiveNext()
	for {
		if err := errors.Join(err1, err2, ctx.Err()); err != nil {
			return err
		}
		var next found
		switch {
		case !okX && !okY && len(copies) == 0:
			return nil
		case okX && okY && x.Seq == y.Seq:
			if x.Account != y.Account || string(x.Data) != string(y.Data) {
				return fmt.Errorf("%w: sequence %d is an event of account %q in the stream, of %q in the archive; "+
					"the stream has gone on without what the archive holds, or the archive is of a copy of it: keep both and decide by hand", ErrConflict, x.Seq, x.Account, y.Account)
			}
			next = found{x, fromStream}
			y, okY, err2 = archiveNext()
			x, err1, okX = streamNext()
		case okX && (!okY || x.Seq < y.Seq) && (len(copies) == 0 || x.Seq <= copies[0].Seq):
			next = found{x, fromStream}
			x, err1, okX = streamNext()
		case okY && (len(copies) == 0 || y.Seq <= copies[0].Seq):
			next = found{blockscan.Stored{Seq: y.Seq, Time: y.Time, Account: y.Account, Data: y.Data}, fromArchive}
			y, okY, err2 = archiveNext()
		default:
			next = found{copies[0], fromCopy}
		}
		for len(copies) > 0 && copies[0].Seq <= next.Seq {
			copies = copies[1:]
		}
		if err := use(next); err != nil {
			return err
		}
	}
}

// blocks yields the whole records of the stored blocks, also those behind damage.
func (r *repair) blocks(p int, allWhole *bool) iter.Seq2[blockscan.Stored, error] {
	return func(yield func(blockscan.Stored, error) bool) {
		*allWhole = true
		blocks, err := blockscan.Blocks(filepath.Join(streamDir(r.cfg.Data, p), "msgs"))
		if err != nil {
			yield(blockscan.Stored{}, err)
			return
		}
		last, stopped := uint64(0), errors.New("no more is wanted")
		for _, b := range blocks {
			whole, err := blockscan.Salvage(b, p, r.a.Partitions(), func(s blockscan.Stored) error {
				if s.Seq <= last || s.Account == "" {
					return fmt.Errorf("block %s holds sequence %d behind %d, or it is of no account of this partition: this is no stream of Muster's", b.Path, s.Seq, last)
				}
				last = s.Seq
				if !yield(s, nil) {
					return stopped
				}
				return nil
			})
			if errors.Is(err, stopped) {
				return
			}
			if err != nil {
				yield(blockscan.Stored{}, err)
				return
			}
			*allWhole = *allWhole && whole
		}
	}
}

// copies are the whole records of the copies of a partition's damaged blocks, by
// sequence. When copies disagree, the sequence is left out.
func (r *repair) copies(p int) ([]blockscan.Stored, error) {
	blocks, err := blockscan.Copies(filepath.Join(r.cfg.Data, quarantine), p)
	if err != nil {
		return nil, err
	}
	bySeq, doubtful := map[uint64]blockscan.Stored{}, map[uint64]bool{}
	for _, b := range blocks {
		_, err := blockscan.Salvage(b, p, r.a.Partitions(), func(s blockscan.Stored) error {
			if old, ok := bySeq[s.Seq]; ok && (old.Account != s.Account || string(old.Data) != string(s.Data)) {
				doubtful[s.Seq] = true
			}
			bySeq[s.Seq] = s
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []blockscan.Stored
	for seq, s := range bySeq {
		if !doubtful[seq] && s.Account != "" {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b blockscan.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, nil
}

// history is merge without the copies that do not go on where their account
// stands: a sequence whose record was cut off may have been given to another.
func (r *repair) history(ctx context.Context, p int, allWhole *bool, use func(found) error) (broken Damaged, err error) {
	links, broken := map[string]codec.Link{}, Damaged{}
	err = r.merge(ctx, p, allWhole, func(f found) error {
		e, err := codec.Decode(f.Data)
		if err == nil && e.Account != domain.AccountID(f.Account) {
			err = fmt.Errorf("the record at sequence %d names account %q", f.Seq, e.Account)
		}
		if err == nil {
			link := links[f.Account]
			err = link.Check(f.Seq, &e)
		}
		if err != nil && f.origin == fromCopy {
			return nil
		}
		if err != nil && broken[f.Account] == "" {
			broken[f.Account] = err.Error()
		}
		links[f.Account] = codec.LinkOf(&e, f.Data)
		return use(f)
	})
	return broken, err
}

// planPartition finds what is to be done in one partition.
func (r *repair) planPartition(ctx context.Context, p int) (*RepairedPartition, error) {
	out := &RepairedPartition{Partition: p, FromArchive: []Lost{}, FromCopies: []Lost{}, Missing: []archive.Gap{}}
	var allWhole bool
	ranges := map[origin]*lostRange{fromArchive: {}, fromCopy: {}}
	lists := map[origin]*[]Lost{fromArchive: &out.FromArchive, fromCopy: &out.FromCopies}
	end := func(o origin) {
		if l := ranges[o]; l.Records > 0 {
			*lists[o] = append(*lists[o], l.result())
			*l = lostRange{}
		}
	}
	var err error
	out.broken, err = r.history(ctx, p, &allWhole, func(f found) error {
		if f.Seq > out.last+1 {
			out.Missing = append(out.Missing, archive.Gap{Partition: p, First: out.last + 1, Last: f.Seq - 1})
		}
		if out.Records++; out.first == 0 {
			out.first = f.Seq
		}
		out.last = f.Seq
		if f.origin == fromStream {
			out.Stream++
			return nil
		}
		if l := ranges[f.origin]; l.Records > 0 && l.Last+1 != f.Seq {
			end(f.origin)
		}
		ranges[f.origin].add(eventlog.Record{Partition: p, Seq: f.Seq, Account: f.Account})
		return nil
	})
	if err != nil {
		return nil, err
	}
	end(fromArchive)
	end(fromCopy)
	if mark := r.marks[p]; mark > out.last {
		out.Missing = append(out.Missing, archive.Gap{Partition: p, First: out.last + 1, Last: mark})
	}
	out.metaOK = r.metaOK(p)
	out.Needed = !allWhole || !out.metaOK || out.Stream < out.Records
	return out, nil
}

// header is what a stream keeps a record with: that of the block it was found
// in, or the one with which a writer would have appended it.
func header(f found, last map[string]uint64) []byte {
	before := last[f.Account]
	last[f.Account] = f.Seq
	if f.origin != fromArchive {
		return f.Header
	}
	return natslog.StoredHeader(before)
}
