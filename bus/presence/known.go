package presence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/musterhq/muster/eventlog"
)

// knownBlob is the name under which the known workers are kept.
const knownBlob = "workers"

// knownFormat is the version of its form; another one is not read.
const knownFormat = 1

// known is the content of the blob.
type known struct {
	Format  int           `json:"format"`
	Workers []knownWorker `json:"workers"`
}

// knownWorker is what outlives a restart of Muster.
type knownWorker struct {
	Name string    `json:"name"`
	Boot string    `json:"boot"`
	Seen time.Time `json:"seen"`
}

// forgetAfter is how long a worker that no account has as its source is kept.
const forgetAfter = 30 * 24 * time.Hour

// maxKnownBytes bounds what is read: maxWorkers of the longest names, escaped.
const maxKnownBytes = 32 << 20

// loadKnown reads the known workers; none are stored is no error.
func loadKnown(ctx context.Context, blobs eventlog.Blobs) ([]knownWorker, error) {
	r, err := blobs.Get(ctx, knownBlob)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the known workers: %w", err)
	}
	defer r.Close()
	var k known
	if err := json.NewDecoder(io.LimitReader(r, maxKnownBytes)).Decode(&k); err != nil {
		return nil, fmt.Errorf("load the known workers: %w", err)
	}
	if k.Format != knownFormat {
		return nil, fmt.Errorf("load the known workers: they have format %d, and this program reads %d", k.Format, knownFormat)
	}
	return k.Workers, nil
}

func storeKnown(ctx context.Context, blobs eventlog.Blobs, workers []knownWorker) error {
	text, err := json.Marshal(known{Format: knownFormat, Workers: workers})
	if err != nil {
		return fmt.Errorf("store the known workers: %w", err)
	}
	if err := blobs.Put(ctx, knownBlob, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("store the known workers: %w", err)
	}
	return nil
}

// merge adds to ours what another process has stored of workers that this one
// does not know, unless they are to be forgotten. Of one that both know, ours is
// what was heard here.
func merge(ours, stored []knownWorker, now time.Time) []knownWorker {
	have := make(map[string]bool, len(ours))
	for _, w := range ours {
		have[w.Name] = true
	}
	for _, w := range stored {
		if !have[w.Name] && now.Sub(w.Seen) < forgetAfter && len(ours) < maxWorkers {
			ours = append(ours, w)
		}
	}
	return ours
}
