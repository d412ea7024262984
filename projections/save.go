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
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections/internal/wire"
)

// The saved state is one blob: saveMagic, the SHA-256 of all that follows it,
// then zstd: what was saved by whom (see writeHeader), and for each partition
// its position, its accounts and each view's state.
const (
	saveMagic   = "MUSTERVIEWS1"
	saveMarker  = 0x5ec7105 // stands behind each part, so that a part read wrongly is seen
	saveTimeout = 30 * time.Second
	headLen     = len(saveMagic) + sha256.Size
)

// castagnoli is the polynomial of the last record's checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveNow saves the state if anything has changed; a failure is counted.
func (r *Runner) saveNow(ctx context.Context) {
	if r.cfg.Blobs == nil || !r.changed() {
		return
	}
	began := r.cfg.Now()
	size, err := r.save(ctx)
	if err != nil {
		r.count(func(s *Status) { s.SaveErrors++ })
		r.cfg.OnNotice(fmt.Errorf("save views: %w", err))
		return
	}
	r.count(func(s *Status) {
		s.Saves++
		s.SavedAt = began
		s.SaveBytes = size
		s.SaveTook = r.cfg.Now().Sub(began)
	})
}

// saveAtEnd is saveNow for when ctx has ended.
func (r *Runner) saveAtEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), saveTimeout, errors.New("saving the views took too long"))
	defer cancel()
	r.saveNow(ctx)
}

// changed says whether a record was applied since the last save.
func (r *Runner) changed() bool {
	for _, p := range r.parts {
		p.gate.Lock()
		n := p.applied
		p.gate.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// save writes the state. Each partition is held while it is written to memory,
// one after the other; storing it holds nobody.
func (r *Runner) save(ctx context.Context) (size int, err error) {
	var blob bytes.Buffer
	blob.WriteString(saveMagic)
	blob.Write(make([]byte, sha256.Size))
	zip, err := zstd.NewWriter(&blob, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer func() { _ = zip.Close() }() // the second Close of the good path does nothing
	if err := r.writeHeader(zip); err != nil {
		return 0, err
	}
	saved := make([]uint64, len(r.parts))
	for i, p := range r.parts {
		if saved[i], err = r.writePart(p, zip); err != nil {
			return 0, fmt.Errorf("partition %d: %w", p.number, err)
		}
	}
	if err := zip.Close(); err != nil {
		return 0, err
	}
	b := blob.Bytes()
	sum := sha256.Sum256(b[headLen:])
	copy(b[len(saveMagic):], sum[:])
	if err := r.cfg.Blobs.Put(ctx, r.cfg.Name, bytes.NewReader(b)); err != nil {
		return 0, err
	}
	for i, p := range r.parts {
		p.gate.Lock()
		p.applied -= saved[i]
		p.gate.Unlock()
	}
	return len(b), nil
}

// writeHeader writes what the state is made of.
func (r *Runner) writeHeader(w io.Writer) error {
	out := wire.NewWriter(w)
	out.Uint(uint64(len(r.parts)))
	out.Uint(uint64(len(r.cfg.Views)))
	for _, v := range r.cfg.Views {
		out.String(v.Name())
		out.Uint(uint64(v.Version()))
	}
	return out.Flush()
}

// writePart writes one partition and returns how many records it is ahead of
// the last save.
func (r *Runner) writePart(p *runnerPart, w io.Writer) (applied uint64, err error) {
	p.gate.Lock()
	defer p.gate.Unlock()
	out := wire.NewWriter(w)
	out.String(p.info.Incarnation)
	out.Uint(p.position.Load())
	out.Uint(uint64(p.lastSum()))
	out.Uint(missing(p.info))
	if err := out.Flush(); err != nil {
		return 0, err
	}
	if err := r.cfg.Roster.Ids(p.number).save(w); err != nil {
		return 0, err
	}
	for _, v := range r.cfg.Views {
		if err := v.Save(p.number, w); err != nil {
			return 0, fmt.Errorf("%s: %w", v.Name(), err)
		}
		out.Uint(saveMarker)
		if err := out.Flush(); err != nil {
			return 0, err
		}
	}
	return p.applied, nil
}

// missing is the number of records between the first and the last of a stream
// that are not there.
func missing(info eventlog.Info) uint64 {
	if span := info.Last - info.First + 1; info.Last > 0 && span > info.Messages {
		return span - info.Messages
	}
	return 0
}

// lastSum is the checksum of the last record applied; the caller holds gate.
func (p *runnerPart) lastSum() uint32 {
	if p.lastData != nil {
		p.loadedSum, p.lastData = crc32.Checksum(p.lastData, castagnoli), nil
	}
	return p.loadedSum
}

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
		p.loadedSum = 0
		r.cfg.Roster.Ids(p.number).reset()
	}
	for _, v := range r.cfg.Views {
		v.Reset()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("load views: %w", context.Cause(ctx))
	}
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil // nothing was ever saved
	}
	r.count(func(s *Status) {
		s.Discarded++
		s.DiscardedBy = err.Error()
	})
	r.cfg.OnNotice(fmt.Errorf("the saved views are discarded, the history is replayed from the start: %w", err))
	return nil
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
	if err := r.readHeader(in); err != nil {
		return err
	}
	for _, p := range r.parts {
		if err := r.readPart(ctx, p, in); err != nil {
			return fmt.Errorf("partition %d: %w", p.number, err)
		}
	}
	return nil
}

// readHeader refuses a state of other views or another number of partitions.
func (r *Runner) readHeader(src wire.Source) error {
	in := wire.NewReader(src)
	if n := in.Uint(); n != uint64(len(r.parts)) {
		return fmt.Errorf("it has %d partitions, the history %d", n, len(r.parts))
	}
	if n := in.Uint(); n != uint64(len(r.cfg.Views)) {
		return fmt.Errorf("it holds %d views, there are %d", n, len(r.cfg.Views))
	}
	for _, v := range r.cfg.Views {
		name, version := in.String(), in.Uint()
		if in.Err() == nil && (name != v.Name() || version != uint64(v.Version())) {
			return fmt.Errorf("it holds %s, version %d, in the place of %s, version %d", name, version, v.Name(), v.Version())
		}
	}
	return in.Err()
}

// readPart loads one partition, if it belongs to the history as it is.
func (r *Runner) readPart(ctx context.Context, p *runnerPart, src wire.Source) error {
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
	for _, v := range r.cfg.Views {
		if err := v.Load(p.number, src); err != nil {
			return fmt.Errorf("%s: %w", v.Name(), err)
		}
		if in.Uint() != saveMarker {
			return fmt.Errorf("%s: it did not read what it saved", v.Name())
		}
	}
	p.loadedSum = sum
	p.position.Store(position)
	return nil
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
