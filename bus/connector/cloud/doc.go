// Package cloud reads the webhooks of the WhatsApp Cloud API.
//
// An account is a phone number, by the digits of its display number. The platform
// has no sessions: it speaks only for numbers that are registered, so the first
// word about one takes it over as RUNNING, and what happens to a number later are
// limits, bans and the end of its registration. One body holds many entries,
// changes and statuses; each is a delivery of its own.
//
// Events of a whole business account go to all its numbers: those that were seen
// in messages, which the memory keeps, and those of the configuration. Without the
// memory a body with messages cannot be read and is asked for again. A payload
// that is not understood is unmapped, never an error.
package cloud
