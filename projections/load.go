package projections

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections/internal/wire"
)

// load takes the saved state over, or discards it and begins anew. It returns
// an error only when ctx ended.
func (r *Runner) load(ctx context.Context) error {
	if r.cfg.Blobs == nil {
		return nil
	}
	err := r.tryLoad(ctx)
	if err == nil {
		r.count(func(s *Status) { s.Resumed = r.positions() })
		return nil
	}
	for _, p := range r.parts {
		p.position.Store(0)
		p.known, p.loadedSum = 0, 0
		clear(p.slots)
		r.cfg.Roster.Ids(p.number).reset()
	}
	for i, v := range r.cfg.Views {
		v.Reset()
		r.health[i] = newHealth(len(r.parts))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("load views: %w", context.Cause(ctx))
	}
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil // nothing was ever saved
	}
	r.discarded(err.Error())
	r.cfg.OnNotice(fmt.Errorf("the saved views are discarded, the history is replayed from the start: %w", err))
	return nil
}

func (r *Runner) discarded(why string) {
	r.count(func(s *Status) {
		s.Discarded++
		s.DiscardedBy = why
	})
}

func (r *Runner) tryLoad(ctx context.Context) error {
	blob, err := r.cfg.Blobs.Get(ctx, r.cfg.Name)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(blob)
	if cerr := blob.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if len(b) < headLen || string(b[:len(saveMagic)]) != saveMagic {
		return errors.New("not a saved state of this format")
	}
	if sum := sha256.Sum256(b[headLen:]); !bytes.Equal(sum[:], b[len(saveMagic):headLen]) {
		return errors.New("its checksum is wrong")
	}
	unzip, err := zstd.NewReader(bytes.NewReader(b[headLen:]), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer unzip.Close()
	in := bufio.NewReaderSize(unzip, 1<<16)
	l, err := r.readHeader(in)
	if err != nil {
		return err
	}
	for _, p := range r.parts {
		if err := r.readPart(ctx, p, in, l); err != nil {
			return fmt.Errorf("partition %d: %w", p.number, err)
		}
	}
	r.foldAnew(l)
	return nil
}

// loading is a saved state that is being read.
type loading struct {
	saved []int    // the views that it holds, in their order, by number; -1: of no use
	stale []string // by view: why its state is not used; "": it is
}

// readHeader refuses a state of another number of partitions, and finds out which
// views it holds.
func (r *Runner) readHeader(src wire.Source) (*loading, error) {
	in := wire.NewReader(src)
	if n := in.Uint(); in.Err() == nil && n != uint64(len(r.parts)) {
		return nil, fmt.Errorf("it has %d partitions, the history %d", n, len(r.parts))
	}
	l := &loading{stale: make([]string, len(r.cfg.Views))}
	for i := range l.stale {
		l.stale[i] = "nothing was saved of it"
	}
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		name, version := in.String(), in.Uint()
		number := -1
		for i, v := range r.cfg.Views {
			switch {
			case v.Name() != name:
			case uint64(v.Version()) != version:
				l.stale[i] = fmt.Sprintf("version %d was saved, this is version %d", version, v.Version())
			default:
				number, l.stale[i] = i, ""
			}
		}
		l.saved = append(l.saved, number)
	}
	return l, in.Err()
}

// readPart loads one partition, if it belongs to the history as it is.
func (r *Runner) readPart(ctx context.Context, p *runnerPart, src wire.Source, l *loading) error {
	in := wire.NewReader(src)
	incarnation, position, sum, lost := in.String(), in.Uint(), uint32(in.Uint()), in.Uint()
	if in.Err() != nil {
		return in.Err()
	}
	if incarnation != p.info.Incarnation {
		return fmt.Errorf("it belongs to stream %q, this is %q", incarnation, p.info.Incarnation)
	}
	if n := missing(p.info); n > lost {
		return fmt.Errorf("%d records of the stream have gone missing since it was saved", n-lost)
	}
	if err := r.checkLast(ctx, p, position, sum); err != nil {
		return err
	}
	if err := r.cfg.Roster.Ids(p.number).load(src); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	p.known, p.loadedSum = position, sum
	for _, number := range l.saved {
		if err := r.readView(p, in, l, number); err != nil {
			return err
		}
	}
	return nil
}

// readView loads one view's state of one partition. A view that cannot read what
// it saved is folded anew, and the others are not.
func (r *Runner) readView(p *runnerPart, in *wire.Reader, l *loading, number int) error {
	var s slot
	whole := s.load(in)
	state := in.Bytes()
	if in.Err() != nil || number < 0 || l.stale[number] != "" || !whole {
		return in.Err()
	}
	v := r.cfg.Views[number]
	src := bytes.NewReader(state)
	if err := v.Load(p.number, src); err != nil {
		l.stale[number] = err.Error()
		return nil
	}
	if src.Len() > 0 {
		l.stale[number] = "it did not read what it saved"
		return nil
	}
	s.at = p.known
	for i := range s.faults {
		s.faults[i].Partition = p.number
	}
	p.slots[number] = s
	r.report(p, number)
	return nil
}

// foldAnew empties the views whose saved state is not used, and sets the
// partitions back to where the last of their views is.
func (r *Runner) foldAnew(l *loading) {
	for i, why := range l.stale {
		if why == "" {
			continue
		}
		v := r.cfg.Views[i]
		v.Reset()
		r.health[i] = newHealth(len(r.parts))
		for _, p := range r.parts {
			p.slots[i] = slot{}
		}
		why = v.Name() + ": " + why
		r.discarded(why)
		r.cfg.OnNotice(fmt.Errorf("one view's saved state is discarded, it is folded anew from the start: %s", why))
	}
	for _, p := range r.parts {
		position := p.known
		for i := range p.slots {
			position = min(position, p.slots[i].at)
		}
		p.position.Store(position)
	}
}

// save writes how a view stands in a partition, and whether its state follows.
func (s *slot) save(out *wire.Writer, whole bool) {
	out.Bool(whole)
	out.Uint(s.parked)
	out.Uint(uint64(len(s.faults)))
	for _, f := range s.faults {
		out.Uint(f.Seq)
		out.String(string(f.Account))
		out.String(f.Err)
	}
}

func (s *slot) load(in *wire.Reader) (whole bool) {
	whole, s.parked = in.Bool(), in.Uint()
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.faults = append(s.faults, Fault{Seq: in.Uint(), Account: domain.AccountID(in.String()), Err: in.String()})
	}
	return whole
}

// checkLast makes sure that the record at a saved position is the one that was
// there when the state was saved: a stream that lost its end in a power cut
// and has grown again since holds other records.
func (r *Runner) checkLast(ctx context.Context, p *runnerPart, position uint64, sum uint32) error {
	if position == 0 {
		return nil
	}
	if position > p.info.Last {
		return fmt.Errorf("it is at sequence %d, the stream ends at %d", position, p.info.Last)
	}
	for rec, err := range r.cfg.History.Read(ctx, p.number, position-1) {
		if err != nil {
			return err
		}
		if rec.Seq != position || crc32.Checksum(rec.Data, castagnoli) != sum {
			return fmt.Errorf("the stream's record %d is not the one it was saved after", position)
		}
		return nil
	}
	return fmt.Errorf("the stream has no record %d any more", position)
}

// positions is the sum of all positions.
func (r *Runner) positions() (sum uint64) {
	for _, p := range r.parts {
		sum += p.position.Load()
	}
	return sum
}
