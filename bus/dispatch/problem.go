package dispatch

import (
	"errors"
	"net/http"
	"strings"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/eventlog"
)

// problems is the one table from the write path's errors to what a caller is told.
var problems = []struct {
	err     error
	code    int
	title   string
	unknown bool // it is not known whether the trigger is stored
}{
	{command.ErrOverloaded, http.StatusServiceUnavailable, "overloaded", false},
	{command.ErrShuttingDown, http.StatusServiceUnavailable, "shutting down", false},
	{command.ErrNotOwner, http.StatusServiceUnavailable, "not the owner", false},
	{command.ErrContended, http.StatusServiceUnavailable, "contended", false},
	{command.ErrUndecided, http.StatusGatewayTimeout, "outcome unknown", true},
	{eventlog.ErrFailed, http.StatusServiceUnavailable, "the log has failed", true},
	{eventlog.ErrNoRoom, http.StatusInsufficientStorage, "no room", false},
	{eventlog.ErrRefused, http.StatusInternalServerError, "refused by the log", false},
}

// problemOf turns an error of the write path into what a caller is told. What
// the table does not know is told as an internal error, without its cause.
func problemOf(err error) *bus.Error {
	var told *bus.Error
	if errors.As(err, &told) {
		return told
	}
	var damaged *command.DamagedError
	if errors.As(err, &damaged) {
		return &bus.Error{Code: http.StatusLocked, Title: "damaged", Detail: damaged.Error()}
	}
	var large *command.TooLargeError
	if errors.As(err, &large) {
		return &bus.Error{Code: http.StatusRequestEntityTooLarge, Title: "too large", Detail: large.Error()}
	}
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return &bus.Error{
				Code: p.code, Title: p.title, Detail: err.Error(), Unknown: p.unknown,
				Retryable: command.Retryable(err) || p.unknown,
			}
		}
	}
	return &bus.Error{Code: http.StatusInternalServerError, Title: "internal error", Detail: "the trigger could not be judged; the server's log says why"}
}

// tooLarge stands for an answer that does not fit into a message.
var tooLarge = &bus.Error{
	Code: http.StatusRequestEntityTooLarge, Title: "answer too large",
	Detail: "the verdict repeats so much of the request that it does not fit into a message; send shorter names",
}

// clip shortens a text for a header, where a sentence belongs and no more. The
// body has the whole.
func clip(s string) string {
	const most = 512
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// metadata describes the endpoint to `nats micro info`.
func metadata() map[string]string {
	return map[string]string{
		"description": "A trigger of the account that the last token of the subject names; the reply is its verdict, once it is stored",
		"format":      bus.TypeJSON + ", " + bus.TypeMsgpack,
		"request":     requestSchema,
		"response":    responseSchema,
	}
}

// sourceMetadata describes the endpoint of the sources.
func sourceMetadata() map[string]string {
	m := metadata()
	m["description"] = "A trigger of the source that the last token but one of the subject names, about the account of the last token"
	return m
}

// requestSchema is the JSON Schema of a trigger.
const requestSchema = `{"type":"object","required":["trigger"],"additionalProperties":false,"properties":{` +
	`"id":{"type":"string"},"account":{"type":"string"},"trigger":{"type":"string"},"key":{"type":"string"},` +
	`"at":{"type":"string","format":"date-time"},"source":{"type":"string"},"epoch":{"type":"integer","minimum":0},` +
	`"seq":{"type":"integer","minimum":0},"by":{"enum":["user","us","remote","unknown",""]},` +
	`"reason":{"type":"object","properties":{"code":{"type":"string"},"text":{"type":"string"}}},"data":{"type":"object"},` +
	`"expect":{"type":"integer","minimum":0},"machine":{"type":"string"},"mode":{"enum":["observe","supervise",""]},` +
	`"labels":{"type":"object","additionalProperties":{"type":"string"}}}}`

// responseSchema is the JSON Schema of a verdict.
const responseSchema = `{"type":"object","required":["account","key","trigger","outcome","from","to","version","reason","as_of"],"properties":{` +
	`"account":{"type":"string"},"key":{"type":"string"},"trigger":{"type":"string"},` +
	`"outcome":{"enum":["applied","noop","stale","rejected","duplicate","conflict","invalid"]},` +
	`"from":{"type":"string"},"to":{"type":"string"},"version":{"type":"integer"},"reason":{"type":"string"},` +
	`"as_of":{"type":"object","additionalProperties":{"type":"integer"}}}}`
