package bus

import (
	"strconv"
	"unicode/utf8"

	"github.com/musterhq/muster/domain"
)

// Reply is a verdict with the position of the log that a reader must have
// reached to see it. Its JSON and msgpack forms have the same names: account,
// key, trigger, outcome, from, to, version, reason, as_of, and, on a duplicate
// only, earlier (the outcome that the id had the first time).
type Reply struct {
	domain.Verdict
	Partition int    // -1: the trigger never reached a partition
	Seq       uint64 // sequence in the partition's stream
}

// AsOf is the position as a query's wait_for takes it: partition → sequence.
func (r *Reply) AsOf() map[int]uint64 {
	if r.Partition < 0 {
		return map[int]uint64{}
	}
	return map[int]uint64{r.Partition: r.Seq}
}

// AppendJSON appends the reply as one JSON object.
func (r *Reply) AppendJSON(b []byte) []byte {
	b = appendJSONString(append(b, `{"account":`...), string(r.Account))
	b = appendJSONString(append(b, `,"key":`...), r.Key)
	b = appendJSONString(append(b, `,"trigger":`...), r.Trigger)
	b = appendJSONString(append(b, `,"outcome":`...), r.Outcome.String())
	b = appendJSONString(append(b, `,"from":`...), r.From)
	b = appendJSONString(append(b, `,"to":`...), r.To)
	b = strconv.AppendUint(append(b, `,"version":`...), r.Version, 10)
	b = appendJSONString(append(b, `,"reason":`...), r.Reason)
	if r.Earlier != 0 {
		b = appendJSONString(append(b, `,"earlier":`...), r.Earlier.String())
	}
	b = append(b, `,"as_of":{`...)
	if r.Partition >= 0 {
		b = strconv.AppendInt(append(b, '"'), int64(r.Partition), 10)
		b = strconv.AppendUint(append(b, `":`...), r.Seq, 10)
	}
	return append(b, '}', '}')
}

// MarshalJSON is AppendJSON, so that a reply prints the same everywhere.
func (r Reply) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// UnmarshalJSON is ParseReply.
func (r *Reply) UnmarshalJSON(b []byte) (err error) {
	*r, err = ParseReply(b)
	return err
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends s quoted. Bytes that are no UTF-8 become U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += n
			continue
		}
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			b = append(b, s[from:i]...)
			if c == '"' || c == '\\' {
				b = append(b, '\\', c)
			} else {
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			from = i + 1
		}
		i++
	}
	return append(append(b, s[from:]...), '"')
}

// AppendMsgpack appends the reply as one msgpack map.
func (r *Reply) AppendMsgpack(b []byte) []byte {
	names := byte(9)
	if r.Earlier != 0 {
		names++
	}
	b = append(b, 0x80|names)
	b = appendPackPair(b, "account", string(r.Account))
	b = appendPackPair(b, "key", r.Key)
	b = appendPackPair(b, "trigger", r.Trigger)
	b = appendPackPair(b, "outcome", r.Outcome.String())
	b = appendPackPair(b, "from", r.From)
	b = appendPackPair(b, "to", r.To)
	b = appendPackUint(appendPackString(b, "version"), r.Version)
	b = appendPackPair(b, "reason", r.Reason)
	if r.Earlier != 0 {
		b = appendPackPair(b, "earlier", r.Earlier.String())
	}
	b = appendPackString(b, "as_of")
	if r.Partition < 0 {
		return append(b, 0x80)
	}
	b = append(b, 0x80|1)
	b = appendPackString(b, strconv.Itoa(r.Partition))
	return appendPackUint(b, r.Seq)
}

func appendPackPair(b []byte, k, v string) []byte {
	return appendPackString(appendPackString(b, k), v)
}

func appendPackString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = append(b, 0xda, byte(n>>8), byte(n))
	default:
		b = append(b, 0xdb, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(b, s...)
}

func appendPackUint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<32:
		return append(b, 0xce, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	default:
		return append(b, 0xcf, byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
}
