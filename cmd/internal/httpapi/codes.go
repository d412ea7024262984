package httpapi

import (
	"fmt"
	"net/http"
	"strings"
)

// Code is one row of the table of what can go wrong. The code is stable: programs
// may compare it, and its status does not change.
type Code struct {
	Code   string `json:"code"`
	Status int    `json:"status"` // of the response; 0 = it only ends a stream or stands in a line of a batch
	Retry  bool   `json:"retry"`  // the same request can succeed later
	About  string `json:"about"`
}

// The codes that this package itself gives.
const (
	CodeInvalid       = "invalid_request"
	CodeNoPath        = "no_such_path"
	CodeMethod        = "method_not_allowed"
	CodeMediaType     = "unsupported_media_type"
	CodeTooLarge      = "too_large"
	CodePrecondition  = "precondition_failed"
	CodeConflict      = "conflict"
	CodeRejected      = "rejected"
	CodeStale         = "stale"
	CodeStarting      = "starting"
	CodeShuttingDown  = "shutting_down"
	CodeUnknown       = "outcome_unknown"
	CodeUnreachable   = "unreachable"
	CodeLate          = "not_in_time"
	CodeTooManyReader = "too_many_streams"
	CodeTooSlow       = "too_slow"
	CodeStreamFailed  = "stream_failed"
	CodeIncomplete    = "body_incomplete"
	CodeNotSent       = "not_sent"
	CodeInternal      = "internal"
)

// codes is the one table of what can go wrong. The titles are those of bus.Error,
// by which errors of the bus find their row.
var codes = []struct {
	Code
	titles []string
}{
	{Code{CodeInvalid, http.StatusBadRequest, false, "The request is not as it must be: a parameter, a header or the body. detail and errors say where and what is right."}, []string{"invalid request"}},
	{Code{CodeIncomplete, http.StatusBadRequest, false, "The body ended early, or paused for too long. Lines of a batch that had come were judged."}, nil},
	{Code{"not_authenticated", http.StatusUnauthorized, false, "No credentials, or wrong ones. Give a token: Authorization: Bearer mst_…"}, []string{"not authenticated"}},
	{Code{"not_allowed", http.StatusForbidden, false, "The token's role or sources do not allow it."}, []string{"not allowed", "cross-origin request"}},
	{Code{"not_found", http.StatusNotFound, false, "There is no such account, message, conversation, machine, delivery or parked message."}, []string{"not found"}},
	{Code{CodeNoPath, http.StatusNotFound, false, "There is no such path."}, nil},
	{Code{CodeMethod, http.StatusMethodNotAllowed, false, "The path does not take this method; the Allow header names those that it takes."}, nil},
	{Code{CodeConflict, http.StatusConflict, false, "The account is not at the version that the body's expect names; or what is to be repeated is not finished."}, []string{"conflict"}},
	{Code{CodePrecondition, http.StatusPreconditionFailed, false, "The account is not at the version that If-Match names. Read it again and decide anew."}, nil},
	{Code{CodeTooLarge, http.StatusRequestEntityTooLarge, false, "The body, or a line of a batch, is larger than 1 MiB, or the event would be larger than the log takes."}, []string{"too large", "answer too large"}},
	{Code{CodeMediaType, http.StatusUnsupportedMediaType, false, "The body is of another type than this path takes."}, nil},
	{Code{CodeRejected, http.StatusUnprocessableEntity, false, "The trigger was judged and kept, and nothing moved: the machine has no such edge from here. verdict says the rest."}, nil},
	{Code{CodeStale, http.StatusUnprocessableEntity, false, "The trigger was judged and kept, and nothing moved: it is older than what is known. verdict says the rest."}, nil},
	{Code{"damaged", http.StatusLocked, false, "The account's history is not whole. It can be read; triggers are refused until it is repaired."}, []string{"damaged"}},
	{Code{"too_many_requests", http.StatusTooManyRequests, true, "The token, or on the bus the source, has made more requests than it may."}, []string{"too many requests"}},
	{Code{CodeInternal, http.StatusInternalServerError, false, "The server could not answer. Its log says why."}, []string{"internal error"}},
	{Code{"refused_by_log", http.StatusInternalServerError, false, "The log did not take the event. Nothing has moved."}, []string{"refused by the log"}},
	{Code{CodeStarting, http.StatusServiceUnavailable, true, "The server replays its history; /readyz says how far it has come."}, []string{"not ready"}},
	{Code{CodeShuttingDown, http.StatusServiceUnavailable, true, "The server is shutting down."}, []string{"shutting down"}},
	{Code{"overloaded", http.StatusServiceUnavailable, true, "More triggers wait than are taken. Nothing was judged."}, []string{"overloaded"}},
	{Code{"not_owner", http.StatusServiceUnavailable, true, "No process writes the account's partition at the moment."}, []string{"not the owner"}},
	{Code{"contended", http.StatusServiceUnavailable, true, "Other writers kept changing the account."}, []string{"contended"}},
	{Code{"log_failed", http.StatusServiceUnavailable, true, "The log can promise nothing until the server has started again. Send the trigger again with the same id."}, []string{"the log has failed"}},
	{Code{"not_caught_up", http.StatusServiceUnavailable, true, "The views did not reach the position of wait_for in time."}, []string{"not caught up"}},
	{Code{"not_now", http.StatusServiceUnavailable, true, "This process does not do it at the moment, e.g. make alerts."}, []string{"not now"}},
	{Code{CodeUnreachable, http.StatusServiceUnavailable, true, "Nobody takes triggers at the moment. Nothing was judged."}, nil},
	{Code{CodeTooManyReader, http.StatusServiceUnavailable, true, "There are as many streams as there may be."}, nil},
	{Code{CodeLate, http.StatusGatewayTimeout, true, "The answer was not ready in time."}, []string{"not in time"}},
	{Code{CodeUnknown, http.StatusGatewayTimeout, true, "It is not known whether the trigger was stored. Send it again with the same id: it is judged once."}, []string{"outcome unknown"}},
	{Code{"no_room", http.StatusInsufficientStorage, true, "The disk is too full for triggers. Questions are answered."}, []string{"no room"}},
	{Code{CodeTooSlow, 0, true, "Ends a stream: it was read so slowly that events which it lacks are no longer kept in memory. Go on from Last-Event-ID."}, nil},
	{Code{CodeStreamFailed, 0, true, "Ends a stream: the history cannot be followed any more. Go on from Last-Event-ID."}, nil},
	{Code{CodeNotSent, 0, true, "A line of a batch: an earlier trigger of its account got no verdict, so this one was not judged."}, nil},
}

// Codes returns the table of what can go wrong, in the order of the statuses.
func Codes() []Code {
	list := make([]Code, len(codes))
	for i := range codes {
		list[i] = codes[i].Code
	}
	return list
}

// codeOf returns the row of a code; the one for internal errors when there is none.
func codeOf(code string) Code {
	internal := Code{}
	for i := range codes {
		switch codes[i].Code.Code {
		case code:
			return codes[i].Code
		case CodeInternal:
			internal = codes[i].Code
		}
	}
	return internal
}

// codeOfTitle returns the code of an error of the bus by its title. What the table
// does not know keeps its status' meaning.
func codeOfTitle(title string, status int) string {
	for i := range codes {
		for _, t := range codes[i].titles {
			if t == title {
				return codes[i].Code.Code
			}
		}
	}
	return codeOfStatus(status)
}

// codeOfStatus returns the first code with a status.
func codeOfStatus(status int) string {
	for i := range codes {
		if codes[i].Status == status {
			return codes[i].Code.Code
		}
	}
	if status >= 400 && status < 500 {
		return CodeInvalid
	}
	return CodeInternal
}

// CodesTable is the table as Markdown, for the documents.
func CodesTable() string {
	var b strings.Builder
	b.WriteString("| code | status | again? | meaning |\n| --- | --- | --- | --- |\n")
	for _, c := range Codes() {
		status, again := "none", "no"
		if c.Status != 0 {
			status = fmt.Sprint(c.Status)
		}
		if c.Retry {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Code, status, again, c.About)
	}
	return b.String()
}
