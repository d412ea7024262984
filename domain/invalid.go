package domain

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// InvalidError says what is wrong with a trigger, in which field, and what
// would be right. A trigger with such an error is answered `invalid` and
// nothing is appended.
type InvalidError struct {
	Field  string // "epoch", "data.until" …; "" = the whole
	Reason string // a sentence
}

// Error prints the field and the sentence.
func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// maxAccountID is the longest account id, in bytes.
const maxAccountID = 128

// ParseAccountID checks that s may name an account: 1 to 128 bytes of valid
// UTF-8 without control characters. The error is an [InvalidError].
func ParseAccountID(s string) (AccountID, error) {
	if err := checkAccountID(s); err != nil {
		return "", err
	}
	return AccountID(s), nil
}

func checkAccountID(s string) error {
	if len(s) == 0 {
		return invalid("account", "is missing; every trigger is about an account")
	}
	if len(s) > maxAccountID {
		return invalid("account", "has %d bytes; at most %d are accepted", len(s), maxAccountID)
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return checkRunes(s)
		}
	}
	return nil
}

func checkRunes(s string) error {
	if !utf8.ValidString(s) {
		return invalid("account", "is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return invalid("account", "contains the control character %U", r)
		}
	}
	return nil
}
