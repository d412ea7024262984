package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// save saves a snapshot with one account, whose state names the sequence.
func save(t *testing.T, blobs eventlog.Blobs, change func(*snapshot.Header)) error {
	t.Helper()
	h := header(1)
	change(&h)
	return snapshot.Save(t.Context(), blobs, h, one(h.Last))
}

func one(last uint64) iter.Seq[snapshot.Entry] {
	return slices.Values([]snapshot.Entry{{Account: "acct-1", Seq: last, State: []byte{byte(last)}}})
}

func at(last uint64) func(*snapshot.Header) {
	return func(h *snapshot.Header) { h.Last = last }
}

// load returns the sequence of the snapshot that Load takes.
func load(t *testing.T, blobs eventlog.Blobs) (uint64, []*snapshot.Error, error) {
	t.Helper()
	var got []snapshot.Entry
	h, refused, err := snapshot.Load(t.Context(), blobs, want(), func(h snapshot.Header, entries iter.Seq2[snapshot.Entry, error]) (err error) {
		got, err = collect(entries)
		return err
	})
	if err == nil && (len(got) != 1 || got[0].Seq != h.Last || got[0].State[0] != byte(h.Last)) {
		t.Errorf("snapshot %d has the entries %+v", h.Last, got)
	}
	return h.Last, refused, err
}

func TestLoadWithoutASnapshot(t *testing.T) {
	if _, refused, err := load(t, &memlog.Blobs{}); !errors.Is(err, eventlog.ErrNotFound) || len(refused) != 0 {
		t.Errorf("got %v and %v, want ErrNotFound and nothing refused", err, refused)
	}
}

func TestTheLastTwoAreKept(t *testing.T) {
	blobs := &counting{}
	for last := uint64(1); last <= 7; last++ {
		if err := save(t, blobs, at(last)); err != nil {
			t.Fatal(err)
		}
		if got, refused, err := load(t, blobs); got != last || err != nil || len(refused) != 0 {
			t.Errorf("after snapshot %d: got %d, %v, refused %v", last, got, err, refused)
		}
	}
	if len(blobs.names) != 2 {
		t.Errorf("got blobs %v, want two", blobs.names)
	}
	blobs.damage(t, 7)
	if got, refused, err := load(t, blobs); got != 6 || err != nil || len(refused) != 1 || refused[0].Reason != snapshot.Damaged {
		t.Errorf("with a damaged 7: got %d, %v, refused %v; want 6 and one that is damaged", got, err, refused)
	}
	blobs.damage(t, 6)
	if _, refused, err := load(t, blobs); !errors.Is(err, eventlog.ErrNotFound) || len(refused) != 2 {
		t.Errorf("with both damaged: got %v, refused %v", err, refused)
	}
}

// A snapshot that is of no use for what is saved now is the one to overwrite.
func TestWhatIsUselessIsOverwritten(t *testing.T) {
	for name, useless := range map[string]func(*snapshot.Header){
		"of another stream":   func(h *snapshot.Header) { h.Last, h.Incarnation = 900, "before" },
		"of another fold":     func(h *snapshot.Header) { h.Last, h.Fold = 900, 2 },
		"ahead of the stream": func(h *snapshot.Header) { h.Last = 900 },
	} {
		t.Run(name, func(t *testing.T) {
			blobs := &memlog.Blobs{}
			for _, change := range []func(*snapshot.Header){at(5), useless, at(6)} {
				if err := save(t, blobs, change); err != nil {
					t.Fatal(err)
				}
			}
			got, refused, err := load(t, blobs)
			if got != 6 || err != nil || len(refused) != 0 {
				t.Errorf("got %d, %v, refused %v; want 6 and nothing refused", got, err, refused)
			}
		})
	}
}

func TestAFailedSaveLeavesTheOther(t *testing.T) {
	blobs := &counting{}
	for last := uint64(1); last <= 2; last++ {
		if err := save(t, blobs, at(last)); err != nil {
			t.Fatal(err)
		}
	}
	blobs.refuse = errors.New("no space")
	if err := save(t, blobs, at(3)); !errors.Is(err, blobs.refuse) {
		t.Errorf("got %v, want the store's error", err)
	}
	blobs.refuse, blobs.half = nil, true // a store that keeps half of what it is given
	if err := save(t, blobs, at(3)); err == nil {
		t.Error("the store stopped reading, and nobody said so")
	}
	if got, refused, err := load(t, blobs); got != 2 || err != nil || len(refused) != 1 {
		t.Errorf("got %d, %v, refused %v; want 2 and the half one refused", got, err, refused)
	}
}

func TestASourceThatStopsIsAnError(t *testing.T) {
	blobs := &memlog.Blobs{}
	if err := snapshot.Save(t.Context(), blobs, header(2), one(1)); err == nil {
		t.Error("one entry came and two were announced, and nobody said so")
	}
	if _, _, err := load(t, blobs); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestWhatUseDoesNotReadIsNotTaken(t *testing.T) {
	blobs := &memlog.Blobs{}
	if err := save(t, blobs, at(1)); err != nil {
		t.Fatal(err)
	}
	no := errors.New("states of an unknown machine")
	for name, use := range map[string]func(snapshot.Header, iter.Seq2[snapshot.Entry, error]) error{
		"nothing read": func(snapshot.Header, iter.Seq2[snapshot.Entry, error]) error { return nil },
		"one read": func(_ snapshot.Header, entries iter.Seq2[snapshot.Entry, error]) error {
			for range entries {
				return nil
			}
			return nil
		},
		"not wanted": func(snapshot.Header, iter.Seq2[snapshot.Entry, error]) error { return no },
	} {
		_, refused, err := snapshot.Load(t.Context(), blobs, want(), use)
		if !errors.Is(err, eventlog.ErrNotFound) || len(refused) != 1 || refused[0].Reason != snapshot.NotUsed {
			t.Errorf("%s: got %v, refused %v; want ErrNotFound and one not used", name, err, refused)
		}
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	blobs := &memlog.Blobs{}
	if err := save(t, blobs, at(1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := snapshot.Load(ctx, blobs, want(), func(_ snapshot.Header, entries iter.Seq2[snapshot.Entry, error]) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// counting is a blob store that knows its names and can fail.
type counting struct {
	memlog.Blobs
	names  map[string]bool
	refuse error
	half   bool
}

func (c *counting) Put(ctx context.Context, name string, r io.Reader) error {
	if c.refuse != nil {
		return c.refuse
	}
	if c.names == nil {
		c.names = map[string]bool{}
	}
	c.names[name] = true
	if c.half {
		r = io.LimitReader(r, 60)
	}
	return c.Blobs.Put(ctx, name, r)
}

// damage flips a bit in the snapshot with this last sequence.
func (c *counting) damage(t *testing.T, last uint64) {
	t.Helper()
	for name := range c.names {
		r, err := c.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h, _, err := snapshot.Read(bytes.NewReader(b), want()); err != nil || h.Last != last {
			continue
		}
		b[len(b)-40] ^= 1
		if err := c.Blobs.Put(t.Context(), name, bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no snapshot with last sequence %d", last)
}
