package domain

import (
	"strconv"
	"time"
	"unicode"
)

// LogLine prints an event as one line: an applied one as
//
//	[2026-01-01T10:00:00.000Z] acct-1: CONNECTING -> QR_REQUIRED via qr_received
//
// and any other as
//
//	[2026-01-01T10:00:00.000Z] acct-1: RUNNING -x qr_scanned (rejected: no edge)
//
// The time is the one at which it was observed. A message or conversation is
// named behind its account, as in acct-1/m-1.
func LogLine(e *Event) string {
	b := make([]byte, 0, 120)
	b = append(b, '[')
	b = time.Unix(0, e.At).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, "] "...)
	b = append(b, e.Account...)
	if e.Key != "" {
		b = append(b, '/')
		b = append(b, printable(e.Key)...)
	}
	b = append(b, ": "...)
	b = append(b, orNew(e.From)...)
	if e.Outcome == Applied {
		b = append(b, " -> "...)
		b = append(b, orNew(e.To)...)
		b = append(b, " via "...)
		return string(append(b, e.Trigger...))
	}
	b = append(b, " -x "...)
	b = append(b, e.Trigger...)
	b = append(b, " ("...)
	b = append(b, e.Outcome.String()...)
	if e.Verdict != "" {
		b = append(b, ": "...)
		b = append(b, e.Verdict...)
	}
	return string(append(b, ')'))
}

// orNew names the state of what did not exist before.
func orNew(state string) string {
	if state == "" {
		return "NEW"
	}
	return state
}

// printable quotes a key that would break the line.
func printable(key string) string {
	for _, r := range key {
		if unicode.IsControl(r) {
			return strconv.Quote(key)
		}
	}
	return key
}
