package offline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
	"github.com/musterhq/muster/eventlog/seal"
)

// The files of a stream's folder, as the server names them.
const (
	metaFile  = "meta.inf" // its configuration and when it was created
	metaCheck = "meta.sum"
)

// streamDir is the folder of a partition's stream in a data folder.
func streamDir(data string, partition int) string {
	return filepath.Join(data, "nats", "jetstream", "$G", "streams", eventlog.StreamName(partition))
}

// streamMeta is what is read of a stream's configuration.
type streamMeta struct {
	Created  time.Time
	Metadata map[string]string `json:"metadata"`
}

// readMeta reads a stream's configuration; nil: it is not there, or not whole.
func readMeta(dir, stream string) *streamMeta {
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return nil
	}
	have, err := os.ReadFile(filepath.Join(dir, metaCheck))
	if err != nil {
		return nil
	}
	m := &streamMeta{}
	if sum, err := blockscan.MetaSum(stream, b); err != nil || sum != string(have) || json.Unmarshal(b, m) != nil {
		return nil
	}
	return m
}

// metaOK says whether the configuration of a partition's stream is whole and is
// that of the stream that was archived.
func (r *repair) metaOK(p int) bool {
	m := readMeta(streamDir(r.cfg.Data, p), eventlog.StreamName(p))
	return m != nil && natslog.Incarnation(m.Created) == r.a.Manifest.Partitions[p].Incarnation
}

// checkStreams refuses data that is not what was archived: a stream of another
// origin that holds records, or another number of partitions.
func (r *repair) checkStreams() error {
	n := r.a.Partitions()
	for p := range eventlog.MaxPartitions {
		dir := streamDir(r.cfg.Data, p)
		m := readMeta(dir, eventlog.StreamName(p))
		if m == nil {
			continue
		}
		if count := m.Metadata["muster.partitions"]; p >= n || count != strconv.Itoa(n) {
			return fmt.Errorf("%w: the data has %s partitions, the archive %d", archive.ErrOther, count, n)
		}
		if r.metaOK(p) {
			continue
		}
		blocks, err := blockscan.Blocks(filepath.Join(dir, "msgs"))
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if _, err := blockscan.Salvage(b, p, n, func(blockscan.Stored) error {
				return fmt.Errorf("%w: the stream of partition %d in %s was created at another time and holds events; repair a folder of the same log, or an empty one", archive.ErrOther, p, r.cfg.Data)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// withServer runs a server that nobody else can reach on a data folder.
func withServer(ctx context.Context, dir string, do func(*bus.Server) error) error {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Sync: bus.SyncGroup})
	if err != nil {
		return err
	}
	err = do(srv)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, srv.Shutdown(end))
}

// apply writes the new streams, proves them, and puts them in place.
func (r *repair) apply(ctx context.Context) error {
	work := filepath.Join(r.cfg.Data, repairDir)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := r.prepare(ctx, work); err != nil {
		return err
	}
	sums := map[int]string{}
	for i := range r.out.Partitions {
		rp := &r.out.Partitions[i]
		if !rp.Needed {
			continue
		}
		sum, err := r.write(ctx, work, rp)
		if err != nil {
			return fmt.Errorf("write the stream of partition %d: %w", rp.Partition, err)
		}
		sums[rp.Partition] = sum
	}
	if err := r.prove(ctx, work, sums); err != nil {
		return err
	}
	d := decision{Kept: keptName(time.Now()), Damaged: r.out.Damaged}
	for i := range r.out.Partitions {
		if rp := &r.out.Partitions[i]; rp.Needed {
			d.Partitions = append(d.Partitions, rp.Partition)
			if err := syncTree(streamDir(work, rp.Partition)); err != nil {
				return err
			}
		}
	}
	if err := d.write(r.cfg.Data); err != nil {
		return err
	}
	r.out.Kept = filepath.Join(r.cfg.Data, d.Kept)
	return FinishRepair(ctx, r.cfg.Data)
}

// prepare lets a server make empty streams, for their configuration.
func (r *repair) prepare(ctx context.Context, work string) error {
	return withServer(ctx, work, func(srv *bus.Server) error {
		nc, err := srv.Connect("muster repair")
		if err != nil {
			return err
		}
		defer nc.Close()
		layout, err := r.layout(ctx)
		if err != nil {
			return err
		}
		log, err := natslog.Open(ctx, nc, natslog.Config{Partitions: r.a.Partitions(), RecordLayout: layout})
		if err != nil {
			return err
		}
		return log.Close()
	})
}

// layout is that of the archive's records, which the first one shows: all of a log
// are sealed, or none is. A log without records is made as an ordinary one.
func (r *repair) layout(ctx context.Context) (string, error) {
	for p := range r.a.Partitions() {
		for rec, err := range r.a.Read(ctx, p, 0) {
			if err != nil {
				return "", err
			}
			if seal.Sealed(rec.Data) {
				return natslog.SealedLayout, nil
			}
			return natslog.RecordLayout, nil
		}
	}
	return natslog.RecordLayout, nil
}

// write writes one partition's new stream and returns the sum of its records.
func (r *repair) write(ctx context.Context, work string, rp *RepairedPartition) (string, error) {
	dir := streamDir(work, rp.Partition)
	if err := r.writeMeta(dir, rp); err != nil {
		return "", err
	}
	msgs := filepath.Join(dir, "msgs")
	if err := errors.Join(os.RemoveAll(msgs), os.Mkdir(msgs, 0o750)); err != nil {
		return "", err
	}
	w := blockscan.NewWriter(msgs, rp.Partition)
	h, last, whole := sha256.New(), map[string]uint64{}, false
	_, err := r.history(ctx, rp.Partition, &whole, func(f found) error {
		f.Header = header(f, last)
		sumRecord(h, f.Seq, f.Time, f.Account, f.Data)
		return w.Add(f.Stored)
	})
	return string(h.Sum(nil)), errors.Join(err, w.Close())
}

// writeMeta gives a new stream the configuration and the consumers of the old
// one, or, when that is not whole, its time of creation: by that snapshots,
// archives and readers know it.
func (r *repair) writeMeta(dir string, rp *RepairedPartition) error {
	old := streamDir(r.cfg.Data, rp.Partition)
	if rp.metaOK {
		for _, name := range []string{metaFile, metaCheck} {
			b, err := os.ReadFile(filepath.Join(old, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), b, 0o640)
			}
			if err != nil {
				return err
			}
		}
		consumers := filepath.Join(old, "obs")
		if _, err := os.Stat(consumers); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		to := filepath.Join(dir, "obs")
		return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(consumers)))
	}
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return err
	}
	created, err := natslog.Created(r.a.Manifest.Partitions[rp.Partition].Incarnation)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	if fields["Created"], err = json.Marshal(created); err != nil {
		return err
	}
	if b, err = json.Marshal(fields); err != nil {
		return err
	}
	sum, err := blockscan.MetaSum(eventlog.StreamName(rp.Partition), b)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, metaFile), b, 0o640), os.WriteFile(filepath.Join(dir, metaCheck), []byte(sum), 0o640))
}

// sumRecord adds a record to a sum.
func sumRecord(h hash.Hash, seq uint64, at int64, account string, data []byte) {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(at))
	binary.LittleEndian.PutUint64(b[16:], uint64(len(account)))
	binary.LittleEndian.PutUint64(b[24:], uint64(len(data)))
	_, _ = h.Write(b[:]) // a hash's Write never fails
	_, _ = h.Write([]byte(account))
	_, _ = h.Write(data)
}

// prove reads the new streams through a server and compares them with what was
// to be written.
func (r *repair) prove(ctx context.Context, work string, sums map[int]string) error {
	return withServer(ctx, work, func(srv *bus.Server) error {
		nc, err := srv.Connect("muster repair")
		if err != nil {
			return err
		}
		defer nc.Close()
		log, err := natslog.OpenReader(ctx, nc)
		if err != nil {
			return fmt.Errorf("prove the new streams: %w", err)
		}
		defer log.Close()
		for p, want := range sums {
			rp := &r.out.Partitions[p]
			info, err := log.Info(ctx, p)
			if err != nil {
				return fmt.Errorf("prove the new streams: %w", err)
			}
			if rp.Records > 0 && (info.First != rp.first || info.Last != rp.last || info.Messages != uint64(rp.Records)) ||
				info.Incarnation != r.a.Manifest.Partitions[p].Incarnation {
				return fmt.Errorf("the new stream of partition %d is not what was to be written: %+v, want sequences %d to %d, %d records; nothing was changed", p, info, rp.first, rp.last, rp.Records)
			}
			h := sha256.New()
			for rec, err := range log.Read(ctx, p, 0) {
				if err != nil {
					return fmt.Errorf("prove the new streams: %w", err)
				}
				sumRecord(h, rec.Seq, rec.Time, rec.Account, rec.Data)
			}
			if string(h.Sum(nil)) != want {
				return fmt.Errorf("the server reads other records from the new stream of partition %d than were written; nothing was changed", p)
			}
		}
		return nil
	})
}
