// Package archive keeps a history outside of its streams: immutable files that
// can be copied, proven whole, and read without a server.
//
// It owns the format below and nothing else: it stores the records' bytes as
// they are and does not know what they mean. Authoritative is the stream while
// it is whole; an archive that is ahead of its stream shows that the stream has
// lost what was acknowledged.
//
// # What happens when it fails
//
// Everything that is read is checked on the way: a frame by its CRC, a segment
// by its SHA-256, its size and its place in the chain, the manifest by its own
// sum. Whatever does not fit is a [*Fault] that names the file and the place.
// A writer that is killed at any byte leaves whole segments, and an open
// segment whose last frame may be torn; [Open] cuts that frame off and goes on
// behind the one before it.
//
// # The folder
//
//	manifest.json         what there is, with a sum of its own
//	00/                   one folder for each partition
//	  00000000000000000001.seg    sealed segments, named by their first sequence
//	  00000000000000004097.open   at most one that is being written
//	lock                  held by the process that writes
//
// The manifest is one line of JSON, {"sha256":S,"manifest":M}, a line feed at
// its end: S is the SHA-256 (64 lower-case hex digits) of the bytes of M. M has
// the fields of [Manifest]. It is replaced as a whole (written beside, synced,
// renamed), so there is always one.
//
// # The segment
//
// Numbers are little-endian and unsigned unless said otherwise. A varint is
// LEB128, a signed one zigzag. CRC is CRC-32C.
//
//	header
//	   8  "MUSTARC1"
//	   2  length of the header, all of it
//	   2  partition
//	   2  partitions
//	   2  zero
//	   8  first sequence
//	  32  SHA-256 of the segment before; zeros for the first one of a partition
//	      the rest but 4: the stream's incarnation, UTF-8
//	   4  CRC of the header before it
//	frames, one behind the other
//	   4  "MSFR"
//	   4  length of the payload
//	   4  length of the payload when it is not compressed
//	   4  records, at least 1
//	   4  accounts that occur here for the first time in this segment
//	   8  first sequence
//	   8  last sequence
//	   8  lowest time, signed: unix ns at which the stream stored the record
//	   8  highest time, signed
//	   4  CRC of the 52 bytes before it and of the payload
//	      payload: a zstd frame of
//	        4  length of the names
//	        4  length of the index
//	           names: for each new account its length (varint) and its id; the
//	           accounts of a segment are numbered from 0 in this order
//	           index: for each record
//	             sequence − the last one − 1 (varint; for the first record of a
//	             frame: its sequence − the frame's first sequence, which is 0)
//	             time − the last one (signed varint; the first: − the lowest time)
//	             number of the account (varint)
//	             length of the record (varint)
//	           the records' bytes, one behind the other
//	footer, of a sealed segment only
//	      a zstd frame of
//	           number of frames (varint), and for each: offset in the file,
//	           records, first sequence, last sequence (varints), lowest time,
//	           highest time (signed varints)
//	           number of accounts (varint), and for each: length of the id
//	           (varint), the id, number of frames with records of it (varint),
//	           and their numbers, each as the difference to the one before
//	trailer
//	   8  offset of the footer
//	   8  length of the footer
//	   8  records of the segment
//	   4  CRC of the footer and of the 24 bytes before it
//	   8  "MUSTEND1"
//
// A frame holds up to [Limits].FrameRecords records, or about FrameBytes of
// them. A reader must refuse what this text does not allow; it need not read
// the footer, since the frames say all.
package archive
