// Package plain takes Muster's own trace lines from senders that speak its
// vocabulary: one JSON object, or, as application/x-ndjson, one to a line.
//
// The account is named as it is, without the source's name in front of it. A line
// speaks for the source that it came from, or for a part of it ("name/part"). A
// body is taken whole or not at all: one invalid line refuses it and is named.
//
// Nothing is kept between two requests.
package plain
