package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
)

// startArchive begins to archive the log, when that is asked for. It is done
// before the writers commit anything, so an archive that has what the streams
// have lost is found while nothing can take the lost sequences; and it ends
// behind the writers' last commit.
func (a *App) startArchive(ctx context.Context) error {
	if a.cfg.Archive == "" {
		return nil
	}
	ar, err := offline.StartArchiver(ctx, offline.ArchiverConfig{
		Dir: a.cfg.Archive, Log: a.events.stored, Logger: a.log.With("component", "archive"),
	})
	if err != nil {
		return archiveRefusal(a.cfg.Archive, err)
	}
	a.archiver.Store(ar)
	a.onEnd("archive", 20*time.Second, ar.Close)
	return nil
}

// archiveRefusal says what is to be done about an archive that cannot be used.
func archiveRefusal(dir string, err error) error {
	var fault *archive.Fault
	switch {
	case errors.Is(err, archive.ErrOther):
		return fmt.Errorf("%w; give this log an archive of its own (--archive), or, when its data is lost, put it back into an empty folder with `muster repair --archive %s --data DIR`", err, dir)
	case errors.Is(err, archive.ErrLocked):
		return fmt.Errorf("%w; one process at a time may write it (--archive)", err)
	case errors.As(err, &fault):
		return fmt.Errorf("the archive is damaged: %w; `muster verify %s` names all that is, and a new archive can be begun in another folder (--archive)", err, dir)
	}
	return err
}

// offerArchive hands committed records to the archive.
func (a *App) offerArchive(partition int, records []eventlog.Record) {
	if ar := a.archiver.Load(); ar != nil {
		if a.events.sealed != nil {
			records = a.events.sealed.AsStored(partition, records)
		}
		ar.Offer(partition, records)
	}
}

// ArchiveStats is how far the archive has come; ok is false when none is kept, or
// the App has not got so far.
func (a *App) ArchiveStats() (s offline.ArchiverStats, ok bool) {
	ar := a.archiver.Load()
	if ar == nil {
		return s, false
	}
	return ar.Stats(), true
}
