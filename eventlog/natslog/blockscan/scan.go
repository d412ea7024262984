// Package blockscan reads the block files of a log's streams before the server
// starts and says what is damaged.
//
// It exists because the server does not say: at one flipped bit it drops the
// rest of the block without a word, cuts the file there, and serves the stream
// with a gap. The scan names each damaged record by sequence and account, and
// what stands behind it in its block, and copies the block aside before it is cut.
//
// It owns nothing and changes nothing in the store; authoritative are the
// files as they are. It must run while no server has the store open. What it
// cannot read (a block that is encrypted or compressed) it reports as
// unchecked; when it fails, nothing is known about the store.
//
// For a repair it also salvages every record of a block that matches its checksum
// (Salvage), and writes records as the blocks of a stream that no server has open
// (Writer); whether the server takes those, the repair proves with the server.
// While a server writes, single records can be read (Reader).
package blockscan

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
)

// Reason is what is wrong at one place.
type Reason string

// The reasons. Torn alone is no loss: it is what a power cut leaves of a record
// that nobody was told of. Were it acknowledged, there would be a Tail, too.
const (
	Flipped Reason = "one bit is flipped"
	Garbled Reason = "the record does not match its checksum"
	Lost    Reason = "the records cannot be found"
	Behind  Reason = "the record is whole, but stands behind a damaged one in its block, where the server drops it"
	Torn    Reason = "the block ends within a record"
	Tail    Reason = "acknowledged records are missing at the end"
)

// Damage is one damaged place.
type Damage struct {
	Partition int
	Block     string // path of the block file; for a missing one, where it should be
	Offset    int64  // in the block, -1 for a missing one
	Seq, To   uint64 // the sequences that are hit; To = Seq for one record; both 0 when not known
	Account   string // "" when not known
	Reason    Reason
}

// String is one line for a log.
func (d Damage) String() string {
	seq := fmt.Sprint(d.Seq)
	if d.To != d.Seq {
		seq = fmt.Sprintf("%d to %d", d.Seq, d.To)
	}
	account := d.Account
	if account == "" {
		account = "unknown account"
	}
	return fmt.Sprintf("partition %d, sequence %s (%s): %s, %s at %d", d.Partition, seq, account, d.Reason, d.Block, d.Offset)
}

// Report is what a scan found.
type Report struct {
	Damage    []Damage       // by partition and sequence
	Unchecked []string       // blocks that could not be read: encrypted or compressed
	Copies    []string       // damaged blocks that were copied aside
	Records   uint64         // whole records
	Bytes     int64          // of all blocks
	Last      map[int]uint64 // each partition's last sequence that is there, or was
}

// Config is what a scan works on.
type Config struct {
	StoreDir   string // the folder that the server is given for its store
	Account    string // the server's account; "": the global one
	Partitions int    // of the log; 0: as many as the highest one found says
	MarkFile   string // the barrier's marks, which show a lost tail; "": not looked at
	Quarantine string // folder for copies of damaged blocks, made when needed; "": no copies
	// First is the first sequence that each partition must have, for a log
	// whose beginning was cut off on purpose. nil, or 0: 1.
	First []uint64
}

// Scan reads all blocks of all partitions that it finds. No store: an empty
// report, but for what the marks say.
func Scan(cfg Config) (Report, error) {
	partitions, err := findPartitions(cfg)
	if err != nil {
		return Report{}, fmt.Errorf("scan blocks: %w", err)
	}
	if cfg.Partitions == 0 && len(partitions) > 0 {
		cfg.Partitions = partitions[len(partitions)-1] + 1
	}
	reports := make([]Report, len(partitions))
	errs := make([]error, len(partitions))
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(len(partitions), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range work {
				reports[i], errs[i] = scanPartition(cfg, partitions[i])
			}
		})
	}
	for i := range partitions {
		work <- i
	}
	close(work)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return Report{}, fmt.Errorf("scan blocks: %w", err)
	}
	marks, err := readMarks(cfg.MarkFile)
	if err != nil {
		return Report{}, fmt.Errorf("scan blocks: %w", err)
	}
	all := Report{Last: map[int]uint64{}}
	for i, r := range reports {
		all.Damage = append(all.Damage, r.Damage...)
		all.Unchecked = append(all.Unchecked, r.Unchecked...)
		all.Copies = append(all.Copies, r.Copies...)
		all.Records += r.Records
		all.Bytes += r.Bytes
		all.Last[partitions[i]] = r.Last[partitions[i]]
	}
	for p, mark := range marks {
		if last, ok := all.Last[p]; mark > last && (ok || p < cfg.Partitions) {
			all.Damage = append(all.Damage, Damage{
				Partition: p, Block: filepath.Join(streamDir(cfg, p), "msgs"), Offset: -1, Seq: last + 1, To: mark, Reason: Tail,
			})
		}
	}
	return all, nil
}

func readMarks(path string) (marks [eventlog.MaxPartitions]uint64, err error) {
	if path == "" {
		return marks, nil
	}
	return barrier.ReadMarks(path)
}

// findPartitions lists the partitions whose streams have a folder.
func findPartitions(cfg Config) ([]int, error) {
	var found []int
	for p := range eventlog.MaxPartitions {
		_, err := os.Stat(filepath.Join(streamDir(cfg, p), "msgs"))
		switch {
		case err == nil:
			found = append(found, p)
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	return found, nil
}

func streamDir(cfg Config, partition int) string {
	return barrier.StreamDir(cfg.StoreDir, cfg.Account, eventlog.StreamName(partition))
}

// Accounts returns the accounts that a report names, in order; damage whose
// account is not known is not among them.
func (r Report) Accounts() []string {
	var accounts []string
	for _, d := range r.Damage {
		if d.Account != "" {
			accounts = append(accounts, d.Account)
		}
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}

// scanPartition reads the blocks of one stream in order.
func scanPartition(cfg Config, partition int) (Report, error) {
	s := &scanner{partition: partition, partitions: cfg.Partitions, want: 1}
	if partition < len(cfg.First) && cfg.First[partition] > 0 {
		s.want = cfg.First[partition]
	}
	msgs := filepath.Join(streamDir(cfg, partition), "msgs")
	blocks, err := findBlocks(msgs)
	if err != nil {
		return Report{}, err
	}
	for i, number := range blocks {
		path := filepath.Join(msgs, fmt.Sprintf("%d.blk", number))
		before := len(s.report.Damage)
		if err := s.block(path, number, i == len(blocks)-1); err != nil {
			return Report{}, err
		}
		if len(s.report.Damage) > before && cfg.Quarantine != "" {
			to, err := copyAside(path, cfg.Quarantine, partition, number)
			if err != nil {
				return Report{}, err
			}
			s.report.Copies = append(s.report.Copies, to)
		}
	}
	s.report.Last = map[int]uint64{partition: s.want - 1}
	slices.SortStableFunc(s.report.Damage, func(a, b Damage) int { return cmp.Compare(a.Seq, b.Seq) })
	return s.report, nil
}

// findBlocks lists the numbers of a stream's blocks in order.
func findBlocks(msgs string) ([]int, error) {
	entries, err := os.ReadDir(msgs)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d.blk", &n); err == nil && strings.HasSuffix(e.Name(), ".blk") {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
