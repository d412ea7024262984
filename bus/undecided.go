package bus

import "errors"

// Undecided says whether, after this error of Send, it is not known if the
// trigger was judged. Sent again with the same id it is judged once.
func Undecided(err error) bool {
	var e *Error
	return errors.Is(err, errNoAnswer) || errors.As(err, &e) && e.Unknown
}
