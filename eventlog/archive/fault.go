package archive

import "fmt"

// Fault is something in an archive that is not as it was written.
type Fault struct {
	File      string `json:"file"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset,omitempty"` // in the file; 0: the file as a whole
	// First and Last are the sequences that are in doubt; 0: not known.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	What  string `json:"what"`
}

// Error names the file, the place and what is wrong there.
func (f *Fault) Error() string {
	switch {
	case f.First > 0:
		return fmt.Sprintf("%s: byte %d, partition %d, sequences %d to %d: %s", f.File, f.Offset, f.Partition, f.First, f.Last, f.What)
	case f.Offset > 0:
		return fmt.Sprintf("%s: byte %d: %s", f.File, f.Offset, f.What)
	default:
		return f.File + ": " + f.What
	}
}
