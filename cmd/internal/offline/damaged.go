package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
)

// The files of the data directory that are about damage.
const (
	damageFile = "damaged.json" // accounts whose history is known not to be whole
	quarantine = "quarantine"   // copies of damaged blocks, as they were before the server cut them
	markFile   = "acknowledged" // the highest sequences ever acknowledged
)

// Damaged is the accounts that are known to have lost records, with the reason.
// It is kept in a file, because the server cuts a damaged block when it starts:
// the next scan would find nothing wrong any more.
type Damaged map[string]string

// Accounts are those of one of n partitions; "" stands for ones that are not
// known, when holes has the partition.
func (d Damaged) Accounts(partition, n int, holes map[int]string) map[string]string {
	out := map[string]string{}
	for id, why := range d {
		if eventlog.Partition(id, n) == partition {
			out[id] = why
		}
	}
	if why := holes[partition]; why != "" {
		out[""] = why
	}
	return out
}

// ScanDamage reads the stored blocks before the server does, copies aside those
// that are damaged, since the server cuts them when it starts, tells the logger,
// and returns the accounts that are, those of earlier scans included, and the
// partitions in which records of unknown accounts are gone.
func ScanDamage(dir string, log *slog.Logger) (Damaged, map[int]string, error) {
	known, err := readDamage(filepath.Join(dir, damageFile))
	if err != nil {
		return nil, nil, err
	}
	begin := time.Now()
	rep, err := blockscan.Scan(blockscan.Config{
		StoreDir: filepath.Join(dir, "nats"), MarkFile: filepath.Join(dir, markFile), Quarantine: filepath.Join(dir, quarantine),
	})
	if err != nil {
		return nil, nil, err
	}
	if rep.Records > 0 {
		log.Info("stored blocks checked", "records", rep.Records, "MiB", rep.Bytes>>20, "took", time.Since(begin).Round(time.Millisecond))
	}
	for _, path := range rep.Unchecked {
		log.Warn("a stored block could not be checked", "block", path)
	}
	fresh, holes := 0, map[int]string{}
	for _, d := range rep.Damage {
		if d.Reason == blockscan.Torn { // what a cut leaves of a record that nobody was told of
			log.Warn("the last record of a block was not written to its end and is dropped", "place", d.String())
			continue
		}
		log.Error("stored events are damaged", "account", d.Account, "place", d.String())
		if d.Account == "" {
			holes[d.Partition] = d.String()
		}
		if d.Account != "" && known[d.Account] == "" {
			known[d.Account] = fmt.Sprintf("sequence %d of partition %d: %s", d.Seq, d.Partition, d.Reason)
			fresh++
		}
	}
	for _, path := range rep.Copies {
		log.Error("the damaged block was copied before it is cut; a repair can use it", "copy", path)
	}
	if fresh > 0 {
		if err := writeDamage(filepath.Join(dir, damageFile), known); err != nil {
			return nil, nil, err
		}
	}
	return known, holes, nil
}

func readDamage(path string) (Damaged, error) {
	known := Damaged{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of damaged accounts: %w", err)
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, fmt.Errorf("read the list of damaged accounts %s: %w", path, err)
	}
	return known, nil
}

// writeDamage replaces the list; it is on disk when it returns.
func writeDamage(path string, known Damaged) error {
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return fmt.Errorf("write the list of damaged accounts: %w", err)
	}
	if err := replaceFile(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write the list of damaged accounts: %w", err)
	}
	return nil
}

// MarkFile is where a data folder keeps the highest sequences ever acknowledged.
func MarkFile(dir string) string { return filepath.Join(dir, markFile) }
