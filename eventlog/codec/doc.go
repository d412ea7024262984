// Package codec turns events, triggers and folded accounts into bytes and back.
//
// It owns the record format: what a stored event looks like, byte for byte. It
// is the only package under eventlog that knows what the bytes mean. A record
// that was written once is authoritative and is read for ever: an existing
// format version never changes, a new one gets a new number (see testdata,
// where one golden file per version and kind holds the tests to it).
//
// # The record
//
// One msgpack map. Its keys are strings of one or two letters in the order of
// the table below, zero values are left out, integers take their shortest
// form, times are unix nanoseconds, and maps have their keys sorted. The same
// event therefore always gives the same bytes.
//
//	v   uint    format version, always the first key; see Version
//	n   uint    number of the event within its account: 1, 2, 3 …
//	id  string  the publisher's id
//	a   string  account id
//	k   uint    kind: 1 session, 2 message, 3 conversation, 4 account, 5 mark, 6 foreign
//	m   string  machine, when it is set or changed
//	in  string  the account's state before its first event, on that event
//	md  string  mode, on the first event
//	lb  map     labels (string to string), on the first event
//	y   string  key: message id or contact
//	t   string  trigger
//	o   uint    outcome: 1 applied, 2 noop, 3 stale, 4 rejected
//	f   string  state before
//	s   string  state after
//	at  int     observed
//	rt  int     recorded
//	sr  string  source
//	ep  int     epoch
//	sq  int     seq
//	by  string  initiator
//	rc  string  reason, the code
//	rx  string  reason, the text
//	vr  string  why the verdict was rejected or stale
//	d   map     data: JSON values, integers as int and the rest of the numbers as float64
//	cs  array   conditions set: maps of n name, s scope, i since, u until, r reason
//	ce  array   conditions ended: maps of n name, s scope
//	fx  uint    effects, a bit set (domain.Effects)
//	co  string  correlation id
//	ca  string  causation id
//	tp  string  traceparent
//	w   uint    revision of the writer's lease
//	ph  bin     first 16 bytes of the SHA-256 of the account's previous record
//
// # Readers
//
// Decode is the general decoder, on msgpack/v5. Reader is written by hand for
// replay and allocates next to nothing. Both accept and refuse the same bytes
// and give the same event; a fuzz test compares them. They skip keys that they
// do not know, so a key may be added without a new version as long as an old
// Muster may do without it. They refuse a repeated key, a value of the wrong
// type or out of range, a record without one of v, n, a, k, t and o, and
// anything behind the map (ErrMalformed); and a record of a newer version
// (ErrRecordVersion), because its meaning is not known.
//
// # Triggers and accounts
//
// TriggerFromMsgpack reads what publishers send in msgpack, by the rules that
// the domain has for JSON. AppendAccount and DecodeAccount are what a snapshot
// keeps of an account; their form is the domain's and may change with
// domain.FoldVersion, since a snapshot can be thrown away.
//
// # When it fails
//
// Nothing here repairs. A record that cannot be read, a gap in n or a wrong ph
// (Link.Check, ChainError) means that the account's history is damaged; the
// caller marks the account and refuses its writes.
package codec
