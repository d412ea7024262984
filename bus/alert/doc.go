// Package alert tells other systems who needs a human: signed webhooks, after the
// Standard Webhooks specification, for each kind of attention.
//
// It owns which alerts are made (Core), that each is delivered once in effect and
// in order (the journal), and the sending (Sender). It owns no judgement: what an
// account needs is what the judge says of its fold.
//
//	event streams → feed → Core ─ changes → journal (MUSTER_ALERTS)
//	operators' log → rules ↗   ↘ due deliveries → Sender → endpoint
//	                        ↖ result ─────────────────────────┘
//
// # What is told
//
// A need that begins (a kind of attention of an account) waits for the debounce,
// so that what heals by itself is not told; login_needed, banned and damaged do
// not wait. Then it is gathered: needs of one kind, source and reason are told
// together when for some seconds no further one has come, at the latest after a
// minute. Up to three accounts are told one by one (attention.opened), more as one
// incident (incident.opened) that names the first few and counts all. What joins
// an incident within a minute of the last that joined belongs to it and is not
// told again. What was told as opened is told as closed.
//
// What is muted when it would be told is held back; when the mute ends and the
// need still stands, it is told then. That something told has closed is always
// told: it wakes nobody, and the receiver's picture stays right. An
// acknowledgement ends reminders.
//
// # Once, and in order
//
// Every decision is a change, and all changes go through the journal before
// anything is sent. The journal is the truth about alerts: what is open, told,
// waiting, delivered or dead, and up to where the events were looked at. So a
// crash loses no alert, and what was under way is sent again under the id that it
// had. An id is made of what the alert is about (kind, account, and the sequence
// of the event that opened it; of an incident, those of its first account), so even
// a journal that has lost its last moments in a power cut gives the same ids again. Two processes cannot both write the
// journal: each append expects the sequence that its writer has seen last.
//
// An alert is not sent before the earlier ones of its account have been delivered
// or are dead; an incident counts for all its accounts. Others go side by side, a
// few at a time for each endpoint; no endpoint waits for another, and judging
// waits for none.
//
// # When something fails
//
//   - an endpoint that does not answer with 2xx within 15 s is tried again, after 5 s
//     at first and 10 h at last, each with jitter and not before its Retry-After;
//     after the last try the alert is dead and can be sent again by hand;
//   - 410 disables the endpoint until a test alert gets through or its URL changes;
//   - a journal that cannot be written stops the making and sending of alerts,
//     until it can; the feed waits, and judging goes on;
//   - a journal that somebody else has written ends the Engine (ErrSuperseded).
//
// Retries wait for hours and must survive the process, which is why they are
// entries of the journal with a due time and not a middleware that holds a message.
package alert
