// Package seal keeps what is personal of the history encrypted, with a key for
// each account, so that destroying one key erases one account: in the streams, in
// every archive and in every copy of either.
//
// It owns the keys (Keys: one file, beside the log and in no archive), the form of
// sealed records (Log, a decorator of eventlog.Log) and that of sealed blobs
// (Blobs, a decorator of eventlog.Blobs). Whoever is above works on plain records
// and ids, and does not know of it.
//
// # What is stored
//
// An account is stored under an alias, "~" and 16 letters and digits that are drawn
// at random in the account's partition. A sealed record is a record of the alias
// (codec reads it) with one key more, z, the last one: a nonce, and AES-256-GCM of what
// the open part lacks, with the open part as additional data. Open are the version,
// kind, machine, trigger, outcome, states, times, epoch, seq, initiator, effects and the
// names of conditions; the source, the reason's code and a condition's reason as far as
// they are plain words; and of data what folding needs. Tokens, which are the same for the
// same text of an account and say nothing without its key, stand for ids, message ids,
// contacts, scopes, handlers, the values of labels, and words that are none. Everything
// else is encrypted only. ph names the sealed record before.
//
// So who has no key folds the same structure: versions, chain, states, conditions,
// counts, messages that are told apart. With the key the record comes back byte
// for byte. The same record after the same one is sealed to the same bytes.
//
// # Erasing
//
// Keys.Erase writes the file of keys anew, without the account's, and overwrites the
// bytes of the old one. It changes the key of all blobs as well, so that no snapshot
// of before can be read. What remains of the account is known by its alias. (A disk
// that copies on write, or moves blocks by itself, may keep what was overwritten
// until it uses the place again; so does every copy of the file that somebody made.)
//
// The file is not a bucket of the server: a key must be on disk before the first
// record that needs it, and must be overwritten in place when it is destroyed, and the
// server promises neither at the time of an answer.
//
// # When it fails
//
// The keys are as authoritative as the history: without them, what is personal is
// gone for ever. A file that is damaged or of another log is refused (ErrKeys); what a
// crash left of a batch that was never used is cut off. An account whose key cannot be
// stored is refused, and nothing of it is appended. A record that its key does not open
// is given as it is stored, under the account's id, and so damages that account. The
// guards and the barrier are those of the log below.
package seal
