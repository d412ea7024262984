package dispatch

import (
	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/domain"
)

// Decode reads a trigger as a command is read: JSON or msgpack, by the content
// type or the first byte, with the account that the subject's last token names.
// It is for triggers that come another way than as a request. The error is the
// sentence that a caller would get with the verdict invalid; the trigger then
// holds what is known of it.
func Decode(subject string, header nats.Header, data []byte) (domain.Trigger, error) {
	t, _, bad := read(&incoming{subject: subject, header: header, data: data})
	if bad != nil {
		return t, bad
	}
	return t, nil
}

// Error is the sentence.
func (b *badInput) Error() string { return b.reason }
