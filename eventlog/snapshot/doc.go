// Package snapshot keeps what a partition's history folds to, so that a start
// need not read all of it.
//
// It owns the file format of a partition's snapshot and where snapshots are
// kept. It stores bytes and does not know what an account's state is.
//
// A snapshot is never authoritative: the log is. Whatever is wrong with one (a
// flipped bit, a truncated file, another stream, a newer format, another fold)
// is an *Error with a Reason to count, and the answer to it is always the same:
// leave it and fold the log from the start. Nothing half-read may be used,
// because what proves a snapshot whole, its checksum, is at its end.
//
// # The file
//
//	8 bytes   "MUSTSNAP"
//	2 bytes   format version
//	2 bytes   length of the header
//	header    fold version (4), partition (4), partitions (4), last sequence (8), number of entries (8), time (8), the rest: the stream's incarnation
//	4 bytes   CRC-32C of everything before
//	zstd      the entries, one behind the other
//	32 bytes  SHA-256 of everything before
//
// Numbers are big-endian. The first three lines and the checksum over them stay
// as they are in every format version, so that an old Muster can tell a newer
// snapshot from a damaged one. An entry is the account id (its length as a
// varint, then the bytes), the sequence of its last record (varint), that
// record's hash (16 bytes), what is wrong with its history (as the account id),
// and its state (as the account id).
//
// # Where snapshots are kept
//
// Two per partition, under fixed names in the log's blobs. Save overwrites the
// older or the worse one and leaves the other alone, so a crash while one is
// written leaves at least one that is whole. Load takes the newest that is
// right.
package snapshot
