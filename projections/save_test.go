package projections_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

// blob returns what is saved, or nil.
func blob(t *testing.T, blobs eventlog.Blobs) []byte {
	t.Helper()
	r, err := blobs.Get(t.Context(), projections.DefaultName)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSavedStateIsTakenUp(t *testing.T) {
	log, blobs := memlog.New(3), new(memlog.Blobs)
	w := newWriter(t, log)
	w.write(400)
	with := func(c *projections.Config) { c.Blobs = blobs }
	first := start(t, log, with)
	first.caughtUp()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if s := first.Status(); s.Saves != 1 || s.SaveBytes == 0 || s.Discarded != 0 {
		t.Fatalf("after the first run: %+v", s)
	}
	w.write(60)
	second := start(t, log, with)
	second.reach(log)
	if s := second.Status(); s.Resumed != 400 || s.Applied != 60 || s.Discarded != 0 || len(s.Alarms) != 0 {
		t.Errorf("after the second start: %+v", s)
	}
	if got, want := second.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	before := blob(t, blobs)
	third := start(t, log, with)
	third.caughtUp()
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	if s := third.Status(); s.Saves != 0 || !bytes.Equal(blob(t, blobs), before) {
		t.Errorf("a state that has not changed was saved again: %+v", s)
	}
}

// TestSavedStateThatIsWrong: whatever is wrong with a saved state, the views
// are folded from the start and say so.
func TestSavedStateThatIsWrong(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b = slices.Clone(b)
			b[(at+len(b))%len(b)] ^= 0x10
			return b
		}
	}
	cases := []struct {
		name   string
		blob   func([]byte) []byte
		config func(*projections.Config)
		log    func(*testing.T, *memlog.Log) *memlog.Log // the history at the second start
		why    string
	}{
		{name: "not ours", blob: func([]byte) []byte { return []byte("PK\x03\x04") }, why: "format"},
		{name: "empty", blob: func([]byte) []byte { return nil }, why: "format"},
		{name: "another format", blob: flip(3), why: "format"},
		{name: "a bit of the checksum", blob: flip(20), why: "checksum"},
		{name: "a bit in the middle", blob: flip(120), why: "checksum"},
		{name: "the last bit", blob: flip(-1), why: "checksum"},
		{name: "cut off", blob: func(b []byte) []byte { return b[:len(b)-9] }, why: "checksum"},
		{
			name: "a newer view",
			config: func(c *projections.Config) {
				v := c.Views[0].(*recorder)
				v.version = 2
			},
			why: "recorder: version 1 was saved, this is version 2",
		},
		{
			name:   "another view",
			config: func(c *projections.Config) { c.Views[0].(*recorder).name = "other" },
			why:    "other: nothing was saved of it",
		},
		{
			name: "one view more",
			config: func(c *projections.Config) {
				c.Views = append(c.Views, &recorder{name: "second", parts: make([]recorded, 2)})
			},
			why: "second: nothing was saved of it",
		},
		{
			name: "another stream",
			log: func(t *testing.T, _ *memlog.Log) *memlog.Log {
				log := memlog.New(2)
				newWriter(t, log).write(300)
				return log
			},
			why: "it belongs to stream",
		},
		{
			name: "another number of partitions",
			log: func(t *testing.T, _ *memlog.Log) *memlog.Log {
				log := memlog.New(4)
				newWriter(t, log).write(300)
				return log
			},
			why: "2 partitions, the history 4",
		},
		{
			name: "records have gone missing",
			log: func(_ *testing.T, log *memlog.Log) *memlog.Log {
				log.Drop(0, 3)
				log.Drop(0, 4)
				return log
			},
			why: "partition 0: 2 records of the stream have gone missing since it was saved",
		},
		{
			name: "the last record is another one",
			log: func(t *testing.T, log *memlog.Log) *memlog.Log {
				info, _ := log.Info(t.Context(), 1)
				for rec, err := range log.Read(t.Context(), 1, info.Last-1) {
					if err != nil {
						t.Fatal(err)
					}
					e, err := codec.Decode(rec.Data)
					if err != nil {
						t.Fatal(err)
					}
					e.Trigger = "stop"
					data, err := codec.Encode(&e)
					if err != nil || !log.Overwrite(1, info.Last, data) {
						t.Fatal("the record was not altered")
					}
				}
				return log
			},
			why: "is not the one it was saved after",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			log, blobs := memlog.New(2), new(memlog.Blobs)
			newWriter(t, log).write(300)
			first := start(t, log, func(cfg *projections.Config) { cfg.Blobs = blobs })
			first.caughtUp()
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			if c.blob != nil {
				if err := blobs.Put(t.Context(), projections.DefaultName, bytes.NewReader(c.blob(blob(t, blobs)))); err != nil {
					t.Fatal(err)
				}
			}
			if c.log != nil {
				log = c.log(t, log)
			}
			checkDiscarded(t, log, c.why, func(cfg *projections.Config) {
				cfg.Blobs = blobs
				if c.config != nil {
					c.config(cfg)
				}
			})
		})
	}
}

// checkDiscarded starts a Runner that must discard what is saved, for a reason.
func checkDiscarded(t *testing.T, log *memlog.Log, why string, with func(*projections.Config)) {
	t.Helper()
	var notices atomic.Int64
	r := start(t, log, func(c *projections.Config) {
		with(c)
		c.OnNotice = func(error) { notices.Add(1) }
	})
	r.reach(log)
	s := r.Status()
	if s.Discarded != 1 || !strings.Contains(s.DiscardedBy, why) || notices.Load() != 1 {
		t.Errorf("discarded %d, because %q, %d notices; want 1, because … %s …", s.Discarded, s.DiscardedBy, notices.Load(), why)
	}
	if got, want := r.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("replayed to %v, want %v", got, want)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if s := r.Status(); s.Saves != 1 {
		t.Errorf("%d saves after the replay, want 1", s.Saves)
	}
}

// TestSavedStateAheadOfTheStream: the stream lost its end, and has or has not
// grown again.
func TestSavedStateAheadOfTheStream(t *testing.T) {
	for _, c := range []struct {
		name  string
		last  uint64
		other bool // record 300 is another one
		why   string
	}{
		{"it has not", 200, false, "it is at sequence 300, the stream ends at 200"},
		{"it has", 310, true, "the stream's record 300 is not the one it was saved after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, blobs := memlog.New(1), new(memlog.Blobs)
			w := newWriter(t, log)
			w.write(300)
			first := start(t, log, func(cfg *projections.Config) { cfg.Blobs = blobs })
			first.caughtUp()
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			w.write(20)
			cut := truncated{log, c.last}
			if c.other {
				data := encode(t, "acct-1", 99)
				log.Overwrite(0, 300, data)
			}
			r := start(t, log, func(cfg *projections.Config) { cfg.Blobs, cfg.History = blobs, cut })
			r.caughtUp()
			if s := r.Status(); s.Discarded != 1 || !strings.Contains(s.DiscardedBy, c.why) {
				t.Errorf("discarded %d, because %q; want 1, because … %s …", s.Discarded, s.DiscardedBy, c.why)
			}
		})
	}
}

// truncated is a log whose streams say that they end earlier.
type truncated struct {
	*memlog.Log
	last uint64
}

func (l truncated) Info(ctx context.Context, p int) (eventlog.Info, error) {
	info, err := l.Log.Info(ctx, p)
	info.Last = min(info.Last, l.last)
	return info, err
}

func TestSavesWhileItRuns(t *testing.T) {
	log, blobs := memlog.New(2), new(memlog.Blobs)
	w := newWriter(t, log)
	r := start(t, log, func(c *projections.Config) { c.Blobs, c.SaveAfter = blobs, 50 })
	r.caughtUp()
	w.write(400)
	eventually(t, "a save after 50 events", func() bool { return r.Status().Saves > 0 })
	// A process that is killed now has only what was saved: the next one goes
	// on from there.
	killed := new(memlog.Blobs)
	if err := killed.Put(t.Context(), projections.DefaultName, bytes.NewReader(blob(t, blobs))); err != nil {
		t.Fatal(err)
	}
	w.write(30)
	next := start(t, log, func(c *projections.Config) { c.Blobs = killed })
	next.reach(log)
	if s := next.Status(); s.Resumed == 0 || s.Discarded != 0 || s.Resumed+s.Applied != 430 {
		t.Errorf("after the kill: %+v", s)
	}
	if got, want := next.view.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSavesUnderLoad: whatever was saved while events came, its position is
// exactly where its views are.
func TestSavesUnderLoad(t *testing.T) {
	log, kept := memlog.New(2), &keptBlobs{}
	w := newWriter(t, log)
	r := start(t, log, func(c *projections.Config) { c.Blobs, c.SaveAfter = kept, 20 })
	for range 300 {
		w.write(20)
	}
	r.reach(log)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	want := fold(t, log)
	if len(kept.all) < 3 {
		t.Fatalf("only %d saves: the test proves nothing", len(kept.all))
	}
	for i := 0; i < len(kept.all); i += 1 + len(kept.all)/10 {
		blobs := new(memlog.Blobs)
		if err := blobs.Put(t.Context(), projections.DefaultName, bytes.NewReader(kept.all[i])); err != nil {
			t.Fatal(err)
		}
		next := start(t, log, func(c *projections.Config) { c.Blobs = blobs })
		next.reach(log)
		if err := next.stop(); err != nil {
			t.Fatal(err)
		}
		if s := next.Status(); s.Resumed == 0 || s.Resumed+s.Applied != 6000 || next.view.repeated != 0 {
			t.Errorf("save %d: resumed %d, applied %d, %d events that the view held already", i, s.Resumed, s.Applied, next.view.repeated)
		}
		if got := next.view.state(); !slices.Equal(got, want) {
			t.Errorf("save %d: got %v, want %v", i, got, want)
		}
	}
}

// keptBlobs keeps all that was ever put.
type keptBlobs struct {
	memlog.Blobs
	all [][]byte
}

func (b *keptBlobs) Put(ctx context.Context, name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	b.all = append(b.all, data)
	return errors.Join(err, b.Blobs.Put(ctx, name, bytes.NewReader(data)))
}

func TestSavesNowAndThen(t *testing.T) {
	log, blobs := memlog.New(1), new(memlog.Blobs)
	w := newWriter(t, log)
	r := start(t, log, func(c *projections.Config) { c.Blobs, c.SaveEvery = blobs, 5*time.Millisecond })
	r.caughtUp()
	w.write(3)
	eventually(t, "a save", func() bool { return r.Status().Saves > 0 })
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// brokenBlobs fails.
type brokenBlobs struct{ eventlog.Blobs }

func (brokenBlobs) Put(context.Context, string, io.Reader) error { return errBroken }

func (brokenBlobs) Get(context.Context, string) (io.ReadCloser, error) { return nil, errBroken }

func TestBlobsThatFail(t *testing.T) {
	log := memlog.New(1)
	newWriter(t, log).write(10)
	var notices atomic.Int64
	r := start(t, log, func(c *projections.Config) {
		c.Blobs = brokenBlobs{}
		c.OnNotice = func(err error) {
			if errors.Is(err, errBroken) {
				notices.Add(1)
			}
		}
	})
	r.caughtUp()
	if err := r.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if s := r.Status(); s.Discarded != 1 || s.SaveErrors != 1 || s.Saves != 0 || notices.Load() != 2 {
		t.Errorf("status: %+v, %d notices", s, notices.Load())
	}
}

// slowBlobs hold the first Put until it is given up.
type slowBlobs struct {
	memlog.Blobs
	began chan struct{}
	puts  int
}

func (b *slowBlobs) Put(ctx context.Context, name string, r io.Reader) error {
	if b.puts++; b.puts > 1 {
		return b.Blobs.Put(ctx, name, r)
	}
	close(b.began)
	<-ctx.Done()
	return ctx.Err()
}

// TestTheEndCutsASaveShort: it is no failure, since the state is saved at the end.
func TestTheEndCutsASaveShort(t *testing.T) {
	log, blobs := memlog.New(1), &slowBlobs{began: make(chan struct{})}
	w := newWriter(t, log)
	var notices atomic.Int64
	r := start(t, log, func(c *projections.Config) {
		c.Blobs, c.SaveAfter = blobs, 5
		c.OnNotice = func(error) { notices.Add(1) }
	})
	r.caughtUp()
	w.write(10)
	r.reach(log)
	<-blobs.began
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); s.SaveErrors != 0 || s.Saves != 1 || notices.Load() != 0 {
		t.Errorf("%d saves, %d of them failed, %d notices; want one, none and none", s.Saves, s.SaveErrors, notices.Load())
	}
	if len(blob(t, &blobs.Blobs)) == 0 {
		t.Error("nothing is saved")
	}
}
