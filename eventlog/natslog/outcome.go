package natslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
)

// The server's error codes that decide an outcome. All else is refused.
const (
	codeWrongLastSequence    = 10071 // another record is the account's last
	codeWrongLastInProcess   = 10164 // another record of the account is on its way (replicated streams)
	codeDuplicateInProcess   = 10158
	codeBatchDuplicate       = 10201
	codeGuardNotReady        = 10163
	codeTooManyRequests      = 10167
	codeClusterNotAvailable  = 10008
	codeClusterNotLeader     = 10009
	codeJetStreamOff         = 10076
	codeJetStreamOffHere     = 10039
	codeStreamOffline        = 10118
	codeStreamOfflineBecause = 10194
)

// answer is what came back for one published record: an error of the client,
// a status without a body, or the server's ack or error.
type answer struct {
	err    error  // the publish itself failed, or no answer came
	status string // header Status: 503 = nobody listens
	body   []byte
}

// outcome is the one place where an append's outcome is decided: stored (nil),
// conflict, unknown or refused. The server's code decides, never its words;
// they only go into the message, and into a conflict's last sequence.
func outcome(account string, a answer) (uint64, error) {
	switch {
	case errors.Is(a.err, nats.ErrMaxPayload), errors.Is(a.err, nats.ErrBadSubject), errors.Is(a.err, nats.ErrHeadersNotSupported):
		return 0, fmt.Errorf("account %q: %w: %w", account, eventlog.ErrRefused, a.err)
	case a.err != nil:
		return 0, fmt.Errorf("account %q: %w: %w", account, eventlog.ErrUnknown, a.err)
	case a.status != "":
		return 0, fmt.Errorf("account %q: %w: %w (status %s)", account, eventlog.ErrUnknown, nats.ErrNoResponders, a.status)
	}
	if seq, ok := parseAck(a.body); ok {
		return seq, nil
	}
	var reply struct {
		Error struct {
			Code        int    `json:"code"`
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(a.body, &reply); err != nil || reply.Error.Code == 0 {
		return 0, fmt.Errorf("account %q: %w: the answer %q is no ack", account, eventlog.ErrUnknown, a.body)
	}
	e := reply.Error
	switch {
	case e.ErrCode == codeWrongLastSequence, e.ErrCode == codeWrongLastInProcess:
		return 0, &eventlog.ConflictError{Account: account, Last: lastInWords(e.ErrCode, e.Description)}
	case unsettled(e.ErrCode):
		return 0, fmt.Errorf("account %q: %w: %s (%d)", account, eventlog.ErrUnknown, e.Description, e.ErrCode)
	default:
		return 0, fmt.Errorf("account %q: %w: %s (%d)", account, eventlog.ErrRefused, e.Description, e.ErrCode)
	}
}

// unsettled says whether an error code of the server means that it could not
// tell, or could not do it now.
func unsettled(code int) bool {
	switch code {
	case codeDuplicateInProcess, codeBatchDuplicate, codeGuardNotReady, codeTooManyRequests, codeClusterNotAvailable,
		codeClusterNotLeader, codeJetStreamOff, codeJetStreamOffHere, codeStreamOffline, codeStreamOfflineBecause:
		return true
	}
	return false
}

// parseAck reads the sequence of an ack, {"stream":"…", "seq":N}, without a
// JSON decoder. ok is false for everything else.
func parseAck(body []byte) (seq uint64, ok bool) {
	if !bytes.HasPrefix(body, []byte(`{"stream":`)) {
		return 0, false
	}
	i := bytes.Index(body, []byte(`"seq":`))
	if i < 0 {
		return 0, false
	}
	for i += len(`"seq":`); i < len(body) && '0' <= body[i] && body[i] <= '9'; i++ {
		seq = seq*10 + uint64(body[i]-'0')
	}
	return seq, seq > 0
}

// lastInWords is the account's last sequence, which code 10071 has at the end
// of its words; 0 when it is not there.
func lastInWords(code int, words string) uint64 {
	if code != codeWrongLastSequence {
		return 0
	}
	seq, err := strconv.ParseUint(words[strings.LastIndexByte(words, ' ')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
