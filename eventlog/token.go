package eventlog

import (
	"errors"
	"fmt"
	"strings"
)

// MaxPartitions is the highest partition count a log can have: the number
// stands in names as two digits.
const MaxPartitions = 100

// SubjectPrefix is the first part of every event subject.
const SubjectPrefix = "muster.ev."

// ErrToken is wrapped by every error of ParseToken.
var ErrToken = errors.New("not an account token")

const upperHex = "0123456789ABCDEF"

// plain reports whether a byte of an account id stands for itself in a token.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Token writes an account id as one token of a subject: bytes in
// [A-Za-z0-9_-] stand for themselves, every other byte is =XX in upper-case
// hex. It is reversible, and an id has exactly one token.
func Token(account string) string {
	escaped := 0
	for i := range len(account) {
		if !plain(account[i]) {
			escaped++
		}
	}
	if escaped == 0 {
		return account
	}
	b := make([]byte, 0, len(account)+2*escaped)
	for i := range len(account) {
		if c := account[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// ParseToken returns the account id of a token. It refuses everything that
// Token does not produce: an empty token, a byte that must be escaped, a bad
// or lower-case escape, an escape of a byte that stands for itself.
func ParseToken(token string) (string, error) {
	if token == "" {
		return "", fmt.Errorf("%w: it is empty", ErrToken)
	}
	if strings.IndexByte(token, '=') < 0 {
		for i := range len(token) {
			if !plain(token[i]) {
				return "", fmt.Errorf("%w: %q: byte %#02x must be escaped", ErrToken, token, token[i])
			}
		}
		return token, nil
	}
	return unescape(token)
}

// unescape is ParseToken for a token with at least one escape.
func unescape(token string) (string, error) {
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if plain(c) {
			b = append(b, c)
			continue
		}
		if c != '=' {
			return "", fmt.Errorf("%w: %q: byte %#02x must be escaped", ErrToken, token, c)
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("%w: %q: it ends within an escape", ErrToken, token)
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("%w: %q: bad escape %q", ErrToken, token, token[i:i+3])
		}
		c = byte(hi<<4 | lo)
		if plain(c) {
			return "", fmt.Errorf("%w: %q: %q must not be escaped", ErrToken, token, token[i:i+3])
		}
		b = append(b, c)
		i += 2
	}
	return string(b), nil
}

// Subject is the one literal subject of an account's events.
func Subject(partition int, account string) string {
	return fmt.Sprintf("%s%02d.%s", SubjectPrefix, partition, Token(account))
}

// PartitionSubjects is the wildcard of all event subjects of a partition.
func PartitionSubjects(partition int) string {
	return fmt.Sprintf("%s%02d.*", SubjectPrefix, partition)
}

// StreamName is the name of a partition's stream.
func StreamName(partition int) string {
	return fmt.Sprintf("MUSTER_EV_%02d", partition)
}

// ParseSubject returns the account of an event subject of the partition.
func ParseSubject(subject string) (partition int, account string, err error) {
	n := len(SubjectPrefix)
	if len(subject) < n+3 || subject[:n] != SubjectPrefix || subject[n+2] != '.' || !digit(subject[n]) || !digit(subject[n+1]) {
		return 0, "", fmt.Errorf("%w: %q is no event subject", ErrToken, subject)
	}
	account, err = ParseToken(subject[n+3:])
	return int(subject[n]-'0')*10 + int(subject[n+1]-'0'), account, err
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
