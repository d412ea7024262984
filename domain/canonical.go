package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
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
	a.Talk.appendCanonical(&w)
	return w.b
}

// MarshalBinary returns the canonical form: what a snapshot keeps of an account.
func (a *Account) MarshalBinary() ([]byte, error) { return AppendCanonical(nil, a), nil }

// UnmarshalBinary fills an account from its canonical form. It keeps no part of
// b. The error says that b is none; it means the snapshot is damaged or of
// another [FoldVersion], and the account has to be folded again.
func (a *Account) UnmarshalBinary(b []byte) error {
	r := canonicalReader{b: b}
	id := r.text()
	*a = Account{ID: AccountID(id), Machine: r.name(), Mode: r.name(), Desired: r.name(), State: r.name(), Source: r.text(), Recent: Recent(r.text())}
	r.flags(&a.Forgotten, &a.Ran, &a.AsksLogin)
	a.Version = uint64(r.number())
	a.Since, a.Epoch, a.Seq, a.Closed, a.UpSince = r.number(), r.number(), r.number(), r.number(), r.number()
	if n := r.count(); n > 0 {
		a.Labels = make(map[string]string, n)
		for range n {
			name := r.text()
			a.Labels[name] = r.text()
		}
	}
	for range r.count() {
		a.Conditions = append(a.Conditions, Condition{Name: r.name(), Scope: r.text(), Since: r.number(), Until: r.number(), Reason: r.text()})
	}
	for range r.count() {
		a.Sources = append(a.Sources, Heard{Source: r.text(), At: r.number()})
	}
	a.readTrouble(&r)
	a.readExtra(&r)
	a.Talk = readTalk(&r)
	if r.bad || len(r.b) > 0 || !a.Recent.whole() {
		return errNotCanonical
	}
	return nil
}

var errNotCanonical = errors.New("not the canonical form of an account")

func (a *Account) readTrouble(r *canonicalReader) {
	t := Trouble{Tries: int(r.number()), LastTry: r.number(), ReplacedAt: r.number(), RefusedAt: r.number(), BannedTill: r.number()}
	for range r.count() {
		t.Flaps = append(t.Flaps, r.number())
	}
	if !t.empty() {
		a.Trouble = &t
	}
}

func (a *Account) readExtra(r *canonicalReader) {
	x := Extra{Authority: r.text(), SidFrom: r.number(), SidUntil: r.number(), TgtFrom: r.number(), TgtUntil: r.number(), Cursor: r.number(), LastSync: r.number()}
	r.flags(&x.HasCursor)
	if x != (Extra{}) {
		a.Extra = &x
	}
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

// canonicalReader reads what canonical wrote. After anything that is not that,
// bad is set and every further read gives a zero.
type canonicalReader struct {
	b   []byte
	bad bool
}

func (r *canonicalReader) text() string {
	n, used := binary.Uvarint(r.b)
	if r.bad || used <= 0 || n > uint64(len(r.b)-used) {
		r.bad = true
		return ""
	}
	s := string(r.b[used : used+int(n)])
	r.b = r.b[used+int(n):]
	return s
}

// name is text for names of which most are well known.
func (r *canonicalReader) name() string { return intern(r.text()) }

func (r *canonicalReader) number() int64 {
	n, used := binary.Varint(r.b)
	if r.bad || used <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[used:]
	return n
}

// count reads a number of things of which each takes at least a byte.
func (r *canonicalReader) count() int {
	n := r.number()
	if n < 0 || n > int64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *canonicalReader) flags(list ...*bool) {
	if r.bad || len(r.b) == 0 {
		r.bad = true
		return
	}
	for i, f := range list {
		*f = r.b[0]&(1<<i) != 0
	}
	r.b = r.b[1:]
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
