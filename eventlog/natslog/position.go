package natslog

import "strings"

// position is what a delivered message's reply subject says about it.
type position struct {
	stream   uint64 // sequence in the stream
	consumer uint64 // sequence of the consumer, without gaps
	time     int64  // when it was stored, unix ns
}

// parsePosition reads a reply subject by hand, since it is done for every
// message of a replay. The forms are
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
func parsePosition(reply string) (position, bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return position{}, false
	}
	skip := 3
	if n := strings.Count(rest, "."); n == 8 || n == 9 {
		skip = 5
	} else if n != 6 {
		return position{}, false
	}
	for range skip {
		rest = rest[strings.IndexByte(rest, '.')+1:]
	}
	var fields [3]uint64
	for i := range fields {
		n := 0
		for ; n < len(rest) && rest[n] != '.'; n++ {
			d := rest[n] - '0'
			if d > 9 {
				return position{}, false
			}
			fields[i] = fields[i]*10 + uint64(d)
		}
		if n == 0 || n == len(rest) {
			return position{}, false
		}
		rest = rest[n+1:]
	}
	return position{fields[0], fields[1], int64(fields[2])}, true
}
