package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
)

// ErrConflict is wrapped when a stream and an archive hold different records at
// one sequence: which of them is right cannot be told.
var ErrConflict = errors.New("the stream and the archive hold different events")

// RepairConfig says what is to be repaired. Archive and Data are required.
type RepairConfig struct {
	Archive string // folder of the archive
	Data    string // data folder of a server that is not running
	Apply   bool   // false: only say what would be done
}

// Repaired is what a repair found, and has done or would do.
type Repaired struct {
	Archive string `json:"archive"`
	Data    string `json:"data"`
	// Needed: something has to be put back, or a stored block is damaged.
	Needed  bool `json:"needed"`
	Applied bool `json:"applied"`
	// Restored is how many records come back into the streams.
	Restored int `json:"restored"`
	// Missing is how many acknowledged records are in none of the sources.
	Missing int `json:"missing"`
	// Kept is the folder that holds the damaged streams as they were.
	Kept       string              `json:"kept,omitempty"`
	Partitions []RepairedPartition `json:"partitions"`
	// Damaged are the accounts whose history is not whole even then, with the reason.
	Damaged Damaged `json:"damaged"`
}

// RepairedPartition is what was found of one partition.
type RepairedPartition struct {
	Partition int  `json:"partition"`
	Needed    bool `json:"needed"`
	// Stream is how many whole records the stored blocks hold, Records how many
	// there are with those that come back.
	Stream  int `json:"stream"`
	Records int `json:"records"`
	// FromArchive and FromCopies are the records that come back: from the archive,
	// and, where it does not have them, from copies of damaged blocks.
	FromArchive []Lost `json:"from_archive"`
	FromCopies  []Lost `json:"from_copies"`
	// Missing are sequences below the last acknowledged one that nobody has.
	Missing []archive.Gap `json:"missing"`

	first, last uint64 // sequences of the records
	metaOK      bool   // the stream's configuration is whole
	broken      Damaged
}

// Repair puts back into the streams of a data folder what they have lost and an
// archive holds, byte for byte and at the same sequences. Without Apply it
// changes nothing there.
//
// The new streams are written beside the old ones, read back through a server
// and compared before the old ones are moved away, into a folder that keeps
// them. A repair that is killed leaves the old streams or the new ones; the next
// start, or the next repair, finishes what had been decided.
func Repair(ctx context.Context, cfg RepairConfig) (*Repaired, error) {
	if _, err := os.Stat(cfg.Archive); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	lock, err := bus.LockDir(cfg.Data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Unlock() }() // the process ends soon
	if err := FinishRepair(ctx, cfg.Data); err != nil {
		return nil, err
	}
	if err := nameAll(cfg.Archive); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	if rep, err := archive.Verify(ctx, cfg.Archive, nil); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	} else if len(rep.Faults) > 0 {
		return nil, fmt.Errorf("repair: the archive itself is damaged and cannot be trusted (`muster verify %s` names all that is): %w", cfg.Archive, rep.Faults[0])
	}
	a, err := archive.OpenArchive(cfg.Archive)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	defer a.Close()
	r, err := newRepair(cfg, a)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	if err := r.plan(ctx); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	if r.out.Needed && cfg.Apply {
		if err := r.apply(ctx); err != nil {
			return nil, fmt.Errorf("repair: %w", err)
		}
		r.out.Applied = true
	}
	return r.out, nil
}

// nameAll lets an archive's manifest name what a killed writer has written and
// not named. An archive that cannot be written is read as it is.
func nameAll(dir string) error {
	m, err := archive.ReadManifest(dir)
	if err != nil {
		return err
	}
	incarnations := make([]string, len(m.Partitions))
	for p := range m.Partitions {
		incarnations[p] = m.Partitions[p].Incarnation
	}
	w, err := archive.Open(dir, incarnations, archive.Limits{})
	if errors.Is(err, archive.ErrLocked) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// repair is one repair.
type repair struct {
	cfg   RepairConfig
	a     *archive.Archive
	marks [eventlog.MaxPartitions]uint64
	known Damaged // what was known before
	out   *Repaired
}

func newRepair(cfg RepairConfig, a *archive.Archive) (*repair, error) {
	r := &repair{cfg: cfg, a: a, out: &Repaired{Archive: cfg.Archive, Data: cfg.Data, Damaged: Damaged{}}}
	var err error
	if r.marks, err = barrier.ReadMarks(MarkFile(cfg.Data)); err != nil {
		return nil, err
	}
	if r.known, err = readDamage(filepath.Join(cfg.Data, damageFile)); err != nil {
		return nil, err
	}
	return r, r.checkStreams()
}

// plan reads everything once and finds what is to be done.
func (r *repair) plan(ctx context.Context) error {
	for p := range r.a.Partitions() {
		rp, err := r.planPartition(ctx, p)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		r.out.Partitions = append(r.out.Partitions, *rp)
		r.out.Needed = r.out.Needed || rp.Needed
		for _, l := range append(rp.FromArchive[:len(rp.FromArchive):len(rp.FromArchive)], rp.FromCopies...) {
			r.out.Restored += l.Records
		}
		for _, g := range rp.Missing {
			r.out.Missing += int(g.Last - g.First + 1)
		}
		for id, why := range rp.broken {
			r.out.Damaged[id] = why
		}
	}
	r.keepKnown()
	for id := range r.known {
		if r.out.Damaged[id] == "" {
			r.out.Needed = true // it is whole and still on the list
		}
	}
	return nil
}

// keepKnown keeps accounts on the list of the damaged whose reason still holds:
// a record that nobody has may have been their last, which no chain shows.
func (r *repair) keepKnown() {
	for id, why := range r.known {
		var seq uint64
		var p int
		if _, err := fmt.Sscanf(why, "sequence %d of partition %d:", &seq, &p); err != nil || p >= len(r.out.Partitions) {
			continue
		}
		for _, g := range r.out.Partitions[p].Missing {
			if g.First <= seq && seq <= g.Last {
				r.out.Damaged[id] = why
			}
		}
	}
}

// keptName is the folder for the damaged streams.
func keptName(now time.Time) string { return "damaged-" + now.UTC().Format("20060102T150405.000Z") }
