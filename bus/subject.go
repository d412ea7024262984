package bus

import (
	"fmt"
	"strings"

	"github.com/musterhq/muster/eventlog"
)

// The subjects of the bus. Events themselves lie under [eventlog.SubjectPrefix].
// Where an account stands in a subject, it is one token, written by
// [eventlog.Token].
const (
	commandPrefix = "muster.cmd."  // + account token: a trigger; the reply is its verdict
	queryPrefix   = "muster.q."    // + query name: a question; the reply is its answer
	inboxPrefix   = "muster.in."   // + account token: a trigger, kept until it is judged
	feedPrefix    = "muster.feed." // + account token: judged events, live
	parkPrefix    = "muster.park." // + account token: a message of the inbox that could not be judged
	sourcePrefix  = "muster.src."  // + source token and account token: a trigger of that source; the reply is its verdict
	ownerPrefix   = "muster.own."  // + partition and account token: a trigger on its way to the partition's owner

	// CommandSubjects is the wildcard of all command subjects.
	CommandSubjects = commandPrefix + "*"
	// SourceSubjects is the wildcard of the command subjects of all sources.
	SourceSubjects = sourcePrefix + "*.*"
	// QueryGroup is the group of subjects under which queries are registered.
	QueryGroup = "muster.q"
	// InboxSubjects is the wildcard of all inbox subjects.
	InboxSubjects = inboxPrefix + "*"
	// ParkSubjects is the wildcard of all subjects of parked messages.
	ParkSubjects = parkPrefix + "*"
	// FeedSubjects is the wildcard of all feed subjects.
	FeedSubjects = feedPrefix + "*"

	// ServiceName is the name of the NATS micro service.
	ServiceName = "muster"
)

// CommandSubject is where a trigger of an account is sent as a request.
func CommandSubject(account string) string { return commandPrefix + eventlog.Token(account) }

// SourceSubject is where a source sends a trigger of an account when it must not
// speak for others: who may publish here is who the subject names.
func SourceSubject(source, account string) string {
	return sourcePrefix + eventlog.Token(source) + "." + eventlog.Token(account)
}

// SubjectsOfSource is the wildcard of the subjects on which a source sends.
func SubjectsOfSource(source string) string { return sourcePrefix + eventlog.Token(source) + ".*" }

// SourceOf returns the source that a subject of SourceSubjects names.
func SourceOf(subject string) (string, error) {
	token, _, _ := strings.Cut(strings.TrimPrefix(subject, sourcePrefix), ".")
	return eventlog.ParseToken(token)
}

// InboxSubject is where a trigger of an account is published to be judged when
// Muster is up.
func InboxSubject(account string) string { return inboxPrefix + eventlog.Token(account) }

// ParkSubject is where a message of the inbox is put that could not be judged.
// token is the last token of the subject that it was published to.
func ParkSubject(token string) string { return parkPrefix + token }

// FeedSubject is where an account's judged events are republished live.
func FeedSubject(account string) string { return feedPrefix + eventlog.Token(account) }

// QuerySubject is the subject of a query, e.g. "accounts.get".
func QuerySubject(name string) string { return queryPrefix + name }

// OwnerSubject is where a process that does not own the partition sends on a
// trigger that came to it. token is the account's token.
func OwnerSubject(partition int, token string) string {
	return fmt.Sprintf("%s%02d.%s", ownerPrefix, partition, token)
}

// OwnerSubjects is the wildcard of what is sent on to a partition's owner.
func OwnerSubjects(partition int) string { return fmt.Sprintf("%s%02d.*", ownerPrefix, partition) }

// AccountOf returns the account that the last token of a subject names.
func AccountOf(subject string) (string, error) {
	return eventlog.ParseToken(LastToken(subject))
}

// LastToken returns what follows the last dot of a subject.
func LastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
