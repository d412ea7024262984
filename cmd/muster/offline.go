package main

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/seal"
)

// source is where a history is read from: a server, or the data of a stopped one.
type source struct {
	data string
}

// log opens the history. done must be called.
func (s *source) log(ctx context.Context, c *cli) (log offline.History, done func(), err error) {
	if s.data == "" {
		log, done, err = offline.OpenServer(ctx, c.connectConfig("muster offline"))
	} else {
		log, done, err = offline.OpenData(ctx, s.data)
	}
	if errors.Is(err, eventlog.ErrNotFound) {
		err = as(errNotFound, err)
	}
	return log, done, c.hint(err)
}

// keysFlag adds --keys: the folder of the keys of what is sealed.
func keysFlag(cmd *cobra.Command, dir *string, does string) {
	cmd.Flags().StringVar(dir, "keys", "", "folder of the keys (DATA/keys) of a history whose accounts can be erased: "+does)
}

// readKeys reads a folder of keys; nil: none is named.
func readKeys(dir string) (*seal.Keys, error) {
	if dir == "" {
		return nil, nil
	}
	keys, err := seal.ReadOnly(dir)
	return keys, asMissing(err)
}

// openArchive opens an archive for reading.
func openArchive(dir string) (*archive.Archive, error) {
	a, err := archive.OpenArchive(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, as(errNotFound, err)
	}
	return a, err
}

// parseUntil reads a point of a history: a time, or sequences by partition
// ("120" for all of them, "0=120,1=98" for each).
func parseUntil(text string, partitions int) (at int64, seqs map[int]uint64, err error) {
	if text == "" {
		return 0, nil, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UnixNano(), nil, nil
	}
	seqs = map[int]uint64{}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		for p := range partitions {
			seqs[p] = n
		}
		return 0, seqs, nil
	}
	for _, part := range strings.Split(text, ",") {
		p, n, ok := strings.Cut(part, "=")
		partition, err1 := strconv.Atoi(p)
		seq, err2 := strconv.ParseUint(n, 10, 64)
		if !ok || err1 != nil || err2 != nil || partition < 0 || partition >= partitions {
			return 0, nil, usage("--until is %q; it is a time such as 2026-01-01T10:00:00Z, a sequence, or sequences by partition such as 0=120,1=98", text)
		}
		seqs[partition] = seq
	}
	return 0, seqs, nil
}
