package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/snapshot"
	"github.com/musterhq/muster/projections"
)

// The places of a repair within a data folder.
const (
	repairDir    = "repair"      // new streams while they are written
	decisionFile = "repair.json" // there while they are put in place
)

// decision says that new streams are proven and take the place of the old ones.
// Once it is on disk the repair is finished, whatever happens between.
type decision struct {
	Kept       string  `json:"kept"` // folder for the old streams, within the data folder
	Partitions []int   `json:"partitions"`
	Damaged    Damaged `json:"damaged"` // accounts that are not whole even then
}

// write makes the decision.
func (d *decision) write(data string) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(data, decisionFile), append(text, '\n'))
}

// FinishRepair puts the streams of a repair in place that was decided and then
// interrupted. Without one it does nothing. The data folder must be locked, and
// no server may have it open.
func FinishRepair(ctx context.Context, data string) error {
	text, err := os.ReadFile(filepath.Join(data, decisionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var d decision
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err == nil {
		err = d.finish(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("finish the repair of %s: %w", data, err)
	}
	return nil
}

// finish does what is still to be done; all of it may be done again.
func (d *decision) finish(ctx context.Context, data string) error {
	kept := filepath.Join(data, d.Kept)
	if err := os.MkdirAll(kept, 0o750); err != nil {
		return err
	}
	for _, p := range d.Partitions {
		if err := swap(streamDir(data, p), streamDir(filepath.Join(data, repairDir), p), filepath.Join(kept, filepath.Base(streamDir(data, p)))); err != nil {
			return err
		}
	}
	// Copies of damaged blocks have been used, and belong to the old streams.
	if err := move(filepath.Join(data, quarantine), filepath.Join(kept, quarantine)); err != nil {
		return err
	}
	if err := d.list(data); err != nil {
		return err
	}
	if err := d.forgetFolds(ctx, data); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(data, decisionFile)); err != nil {
		return err
	}
	if err := syncDir(data); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(data, repairDir))
}

// list keeps on the list of damaged accounts those that are.
func (d *decision) list(data string) error {
	path := filepath.Join(data, damageFile)
	if len(d.Damaged) > 0 {
		return writeDamage(path, d.Damaged)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(data)
}

// forgetFolds deletes the snapshots and saved views: they were folded without
// the records that have come back.
func (d *decision) forgetFolds(ctx context.Context, data string) error {
	if len(d.Partitions) == 0 {
		return nil
	}
	return withServer(ctx, data, func(srv *bus.Server) error {
		nc, err := srv.Connect("muster repair")
		if err != nil {
			return err
		}
		defer nc.Close()
		blobs, err := natslog.OpenBlobs(ctx, nc, 0)
		if err != nil {
			return err
		}
		for _, p := range d.Partitions {
			if err := snapshot.Discard(ctx, blobs, p); err != nil {
				return err
			}
		}
		return blobs.Delete(ctx, projections.DefaultName)
	})
}

// swap puts a new folder in the place of an old one, which is kept. When the new
// one is gone, it has been done.
func swap(place, fresh, kept string) error {
	if _, err := os.Stat(fresh); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := move(place, kept); err != nil {
		return err
	}
	return move(fresh, place)
}

// move renames a folder durably; one that is not there is no error.
func move(from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(from)))
}

// replaceFile replaces a file as a whole, durably.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncTree syncs all files and folders below a folder.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path)
	})
}

// syncDir syncs a folder or a file.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
