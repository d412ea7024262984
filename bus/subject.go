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
	inboxPrefix   = "muster.in."   // + account token, or speaker and account token: a trigger, kept until it is judged
	feedPrefix    = "muster.feed." // + account token: judged events, live
	parkPrefix    = "muster.park." // + account token: a message of the inbox that could not be judged
	sourcePrefix  = "muster.src."  // + speaker and account token: a trigger of that speaker; the reply is its verdict
	namedPrefix   = "muster.as."   // + name and query name: a question of somebody of that name
	ownerPrefix   = "muster.own."  // + partition and account token: a trigger on its way to the partition's owner

	// CommandSubjects is the wildcard of all command subjects.
	CommandSubjects = commandPrefix + "*"
	// SourceSubjects is the wildcard of the command subjects of all speakers.
	SourceSubjects = sourcePrefix + "*.*"
	// NamedQueries is the wildcard of the subjects of questions that say who asks.
	NamedQueries = namedPrefix + "*.>"
	// QueryGroup is the group of subjects under which queries are registered.
	QueryGroup = "muster.q"
	// InboxSubjects is the wildcard of all inbox subjects, with and without a speaker.
	InboxSubjects = inboxPrefix + ">"
	// ParkSubjects is the wildcard of all subjects of parked messages.
	ParkSubjects = parkPrefix + "*"
	// FeedSubjects is the wildcard of all feed subjects.
	FeedSubjects = feedPrefix + "*"

	// ServiceName is the name of the NATS micro service.
	ServiceName = "muster"
)

// CommandSubject is where a trigger of an account is sent as a request.
func CommandSubject(account string) string { return commandPrefix + eventlog.Token(account) }

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
