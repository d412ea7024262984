package projections

import (
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
// its position, its accounts and each view's state. A view that does not hold
// everything up to the position, or is halted, has none there: it is folded anew
// at the next start, and the others are not.
const (
	saveMagic   = "MUSTERVIEWS2"
	saveTimeout = 30 * time.Second
	headLen     = len(saveMagic) + sha256.Size
)

// castagnoli is the polynomial of the last record's checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveNow saves the state if anything has changed; a failure is counted. A save that
// the end of ctx cuts short is none: saveAtEnd does it over.
func (r *Runner) saveNow(ctx context.Context) {
	if r.cfg.Blobs == nil || !r.changed() {
		return
	}
	began := r.cfg.Now()
	size, err := r.save(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return
	}
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
	out.Uint(p.known)
	out.Uint(uint64(p.lastSum()))
	out.Uint(missing(p.info))
	if err := out.Flush(); err != nil {
		return 0, err
	}
	if err := r.cfg.Roster.Ids(p.number).save(w); err != nil {
		return 0, err
	}
	var state bytes.Buffer
	for i, v := range r.cfg.Views {
		state.Reset()
		whole := !p.slots[i].halted && p.slots[i].at >= p.known
		if whole {
			if err := v.Save(p.number, &state); err != nil {
				return 0, fmt.Errorf("%s: %w", v.Name(), err)
			}
		}
		p.slots[i].save(out, whole)
		out.Bytes(state.Bytes())
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
