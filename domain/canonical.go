package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// AppendCanonical appends the account's canonical form: every field of the
// fold, in a fixed order, lengths before texts. Two accounts have the same form
// if and only if they are the same fold. What lives in memory only (the last
// heartbeat) and what belongs to the log (recorded times, the hash chain) is no
// part of it.
func AppendCanonical(dst []byte, a *Account) []byte {
	w := canonical{dst}
	for _, s := range []string{string(a.ID), a.Machine, a.Mode, a.Desired, a.State, a.Source, string(a.Recent)} {
		w.text(s)
	}
	w.flags(a.Forgotten, a.Ran, a.AsksLogin)
	w.number(int64(a.Version))
	w.number(a.Since, a.Epoch, a.Seq, a.Closed, a.UpSince)
	w.number(int64(len(a.Labels)))
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		w.text(name)
		w.text(a.Labels[name])
	}
	w.number(int64(len(a.Conditions)))
	for _, c := range a.Conditions {
		w.text(c.Name)
		w.text(c.Scope)
		w.number(c.Since, c.Until)
		w.text(c.Reason)
	}
	w.number(int64(len(a.Sources)))
	for _, s := range a.Sources {
		w.text(s.Source)
		w.number(s.At)
	}
	t := a.trouble()
	w.number(int64(t.Tries), t.LastTry, t.ReplacedAt, t.RefusedAt, t.BannedTill, int64(len(t.Flaps)))
	w.number(t.Flaps...)
	x := a.extra()
	w.text(x.Authority)
	w.number(x.SidFrom, x.SidUntil, x.TgtFrom, x.TgtUntil, x.Cursor, x.LastSync)
	w.flags(x.HasCursor)
	return w.b
}

type canonical struct{ b []byte }

func (w *canonical) text(s string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *canonical) number(list ...int64) {
	for _, n := range list {
		w.b = binary.AppendVarint(w.b, n)
	}
}

func (w *canonical) flags(list ...bool) {
	var bits byte
	for i, f := range list {
		if f {
			bits |= 1 << i
		}
	}
	w.b = append(w.b, bits)
}

// Digest is "sha256:" and the hash over the canonical forms of all accounts, in
// the order of their ids. Forgotten accounts count: they are part of the fold,
// though no view lists them.
func Digest(accounts []*Account) string {
	sorted := slices.Clone(accounts)
	slices.SortFunc(sorted, func(a, b *Account) int { return strings.Compare(string(a.ID), string(b.ID)) })
	h := sha256.New()
	var buf []byte
	for _, a := range sorted {
		buf = AppendCanonical(buf[:0], a)
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(buf))))
		_, _ = h.Write(buf)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
