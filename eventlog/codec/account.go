package codec

import (
	"fmt"
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// AppendAccount appends an account's state as a snapshot keeps it: its
// canonical form, which the domain owns. There is no version in it: a snapshot
// carries domain.FoldVersion, and states of another fold are never decoded. An
// account without an id is an ErrUnencodable, and dst comes back as it was.
func AppendAccount(dst []byte, a *domain.Account) ([]byte, error) {
	if a.ID == "" {
		return dst, fmt.Errorf("encode an account's state: %w: it has no id", ErrUnencodable)
	}
	return domain.AppendCanonical(dst, a), nil
}

// DecodeAccount reads what AppendAccount wrote. The account shares nothing with
// b. An error is an ErrMalformed.
func DecodeAccount(b []byte) (*domain.Account, error) {
	a := &domain.Account{}
	if err := a.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("decode an account's state: %w: %w", ErrMalformed, err)
	}
	return a, nil
}

// Account is DecodeAccount for a whole fleet's accounts: texts that repeat are
// held in memory once, together with those of Fold. What it leaves out only
// costs memory.
func (r *Reader) Account(b []byte) (*domain.Account, error) {
	a, err := DecodeAccount(b)
	if err != nil {
		return nil, err
	}
	r.fold()
	r.share(&a.Machine)
	r.share(&a.State)
	r.share(&a.Source)
	for i := range a.Conditions {
		c := &a.Conditions[i]
		r.share(&c.Name)
		r.share(&c.Scope)
		r.share(&c.Reason)
	}
	for i := range a.Sources {
		r.share(&a.Sources[i].Source)
	}
	for name, v := range a.Labels {
		r.share(&v)
		a.Labels[name] = v
	}
	return a, nil
}

// share replaces a text by the one that is held already.
func (r *Reader) share(s *string) {
	*s = r.names.intern(unsafe.Slice(unsafe.StringData(*s), len(*s)))
}
