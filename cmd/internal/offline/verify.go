package offline

import (
	"context"
	"errors"
	"fmt"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/seal"
)

// Mismatch is a record that an archive and a stream hold differently, or a
// stretch of records that only one of them holds.
type Mismatch struct {
	Partition int    `json:"partition"`
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
	Account   string `json:"account,omitempty"`
	What      string `json:"what"`
}

// Verified is the result of a verification.
type Verified struct {
	Whole bool `json:"whole"`
	*archive.Report
	Sealed *SealReport   `json:"sealed,omitempty"` // absent: no record was to be opened
	Stream *StreamReport `json:"stream,omitempty"` // absent: only the archive was looked at
}

// SealReport says how many sealed records the keys open. The records of an account
// that was erased are among the closed ones; one whose key does not open it is a fault.
type SealReport struct {
	Opened int `json:"opened"`
	Closed int `json:"closed"` // there is no key for them
}

// StreamReport compares a log with an archive.
type StreamReport struct {
	Records    int        `json:"records"`  // of the log
	Compared   int        `json:"compared"` // records that both hold, byte for byte alike
	Behind     int        `json:"behind"`   // records that the archive does not hold yet
	Mismatches []Mismatch `json:"mismatches"`
}

// Verify checks an archive to the last byte, and that the records of each
// account follow one another: versions without gaps, each naming the hash of
// the one before. With keys (nil: none) it also opens what they can open.
func Verify(ctx context.Context, dir string, keys *seal.Keys) (*Verified, error) {
	c := chains{}
	check := c.check
	var sealed *SealReport
	if keys != nil {
		sealed = &SealReport{}
		check = func(r eventlog.Record) error {
			if err := c.check(r); err != nil {
				return err
			}
			return sealed.check(keys, r)
		}
	}
	r, err := archive.Verify(ctx, dir, check)
	if err != nil {
		return nil, err
	}
	return &Verified{Whole: len(r.Faults) == 0 && len(r.Gaps) == 0, Report: r, Sealed: sealed}, nil
}

// check opens a record.
func (s *SealReport) check(keys *seal.Keys, r eventlog.Record) error {
	known, err := keys.Unseal(&r)
	switch {
	case err != nil:
		return err
	case !known:
		s.Closed++
		return nil
	}
	s.Opened++
	if e, err := codec.Decode(r.Data); err != nil || e.Account != domain.AccountID(r.Account) {
		return fmt.Errorf("account %q: what was sealed is no record of it: %w", r.Account, errors.Join(err, seal.ErrOpen))
	}
	return nil
}

// chains are the ends of the accounts' chains.
type chains map[string]codec.Link

func (c chains) check(r eventlog.Record) error {
	e, err := codec.Decode(r.Data)
	if err != nil {
		return fmt.Errorf("account %q: %w", r.Account, err)
	}
	if e.Account != domain.AccountID(r.Account) {
		return fmt.Errorf("the record names account %q, its place account %q", e.Account, r.Account)
	}
	link, known := c[r.Account]
	c[r.Account] = codec.LinkOf(&e, r.Data)
	if !known && e.Version > 1 && r.Seq > 1 {
		return nil // the account's first records lie before the archive
	}
	return link.Check(r.Seq, &e)
}

// Compare reads a log and an archive side by side. The archive must have been
// found whole.
func Compare(ctx context.Context, h History, a *archive.Archive) (*StreamReport, error) {
	out := &StreamReport{Mismatches: []Mismatch{}}
	if h.Partitions() != a.Partitions() {
		return nil, fmt.Errorf("compare: the log has %d partitions, the archive %d", h.Partitions(), a.Partitions())
	}
	for p := range h.Partitions() {
		info, err := h.Info(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("compare partition %d: %w", p, err)
		}
		if have := a.Manifest.Partitions[p].Incarnation; have != info.Incarnation {
			out.Mismatches = append(out.Mismatches, Mismatch{Partition: p, What: "the archive is of a stream that was created at another time"})
			continue
		}
		if err := out.partition(ctx, h, a, p); err != nil {
			return nil, fmt.Errorf("compare partition %d: %w", p, err)
		}
	}
	return out, nil
}

// partition merges the two sequences of records.
func (s *StreamReport) partition(ctx context.Context, h History, a *archive.Archive, p int) error {
	stream, stopStream := pull(h.Read(ctx, p, 0))
	defer stopStream()
	kept, stopKept := pull(a.Read(ctx, p, 0))
	defer stopKept()
	x, okX, err := stream()
	y, okY, err2 := kept()
	for err = errors.Join(err, err2); err == nil && (okX || okY); {
		switch {
		case okX && okY && x.Seq == y.Seq:
			s.Records++
			if x.Account == y.Account && string(x.Data) == string(y.Data) {
				s.Compared++
			} else {
				s.mismatch(p, x.Seq, x.Account, "the stream holds another record than the archive")
			}
			x, okX, err = stream()
			y, okY, err2 = kept()
			err = errors.Join(err, err2)
		case okX && (!okY || x.Seq < y.Seq):
			s.Records++
			if okY {
				s.mismatch(p, x.Seq, x.Account, "the archive does not hold it")
			} else {
				s.Behind++
			}
			x, okX, err = stream()
		default:
			s.mismatch(p, y.Seq, y.Account, "the stream does not hold it")
			y, okY, err = kept()
		}
	}
	return err
}

// mismatch notes one, or lengthens the last one when it goes on.
func (s *StreamReport) mismatch(partition int, seq uint64, account, what string) {
	if n := len(s.Mismatches); n > 0 {
		m := &s.Mismatches[n-1]
		if m.Partition == partition && m.Last+1 == seq && m.What == what {
			if m.Last = seq; m.Account != account {
				m.Account = ""
			}
			return
		}
	}
	s.Mismatches = append(s.Mismatches, Mismatch{Partition: partition, First: seq, Last: seq, Account: account, What: what})
}
