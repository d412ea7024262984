package natslog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestStreamsAreMadeAsPromised(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	open(t, nc, natslog.Config{})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"MUSTER_EV_00", "MUSTER_EV_01", "MUSTER_EV_02", "MUSTER_EV_03"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		if c.Storage != jetstream.FileStorage || !c.DenyDelete || c.Compression != jetstream.NoCompression || c.MaxMsgsPerSubject != -1 ||
			c.MaxMsgs != -1 || c.MaxBytes != -1 || c.MaxAge != 0 || c.Replicas != 1 || c.Retention != jetstream.LimitsPolicy ||
			len(c.Subjects) != 1 || c.Subjects[0] != "muster.ev."+name[len(name)-2:]+".*" || c.Duplicates.Milliseconds() != 100 ||
			c.Metadata["muster.partitions"] != "4" || c.Metadata["muster.hash"] != "fnv1a-32" || c.Metadata["muster.record"] != "1" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestOpenAgainKeepsTheLog(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 2})
	seq := eventlogtest.Store(t, log, "a", 0, "x")
	before, err := log.Info(t.Context(), eventlog.Partition("a", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, partitions := range []int{0, 2} {
		again := open(t, s.Conn(t), natslog.Config{Partitions: partitions})
		if again.Partitions() != 2 {
			t.Errorf("opened with %d: %d partitions", partitions, again.Partitions())
		}
		r, err := again.Last(t.Context(), "a")
		if err != nil || r.Seq != seq || string(r.Data) != "x" {
			t.Errorf("last %+v, %v", r, err)
		}
		if after, err := again.Info(t.Context(), r.Partition); err != nil || after != before {
			t.Errorf("info %+v, %v, want %+v", after, err, before)
		}
	}
}

func TestOpenRefusesWhatDoesNotFit(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	meta := func(key, value string) func(*testing.T) {
		return func(t *testing.T) {
			stream, err := js.Stream(t.Context(), "MUSTER_EV_00")
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			cfg.Metadata[key] = value
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop := func(name string) func(*testing.T) {
		return func(t *testing.T) {
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T)
		cfg    natslog.Config
		words  []string // "" as the first: it opens
	}{
		{"as it is", func(*testing.T) {}, natslog.Config{Partitions: 3}, []string{""}},
		{"another partition count", func(*testing.T) {}, natslog.Config{Partitions: 8}, []string{"3 partitions", "opened with 8", "open it with 3"}},
		{"another hash", meta("muster.hash", "crc32"), natslog.Config{}, []string{`"crc32"`, "version of Muster"}},
		{"newer records", meta("muster.record", "2"), natslog.Config{}, []string{`layout "2"`, "version of Muster"}},
		{"a stream of somebody else", meta("muster.partitions", ""), natslog.Config{}, []string{"MUSTER_EV_00", "another server"}},
		{"a missing stream", drop("MUSTER_EV_02"), natslog.Config{}, []string{"MUSTER_EV_02 is missing", "backup"}},
		{"the first stream is missing", drop("MUSTER_EV_00"), natslog.Config{}, []string{"MUSTER_EV_00 is missing", "backup"}},
		{"too many partitions", func(*testing.T) {}, natslog.Config{Partitions: 101}, []string{"1 to 100"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Wipe(t, nc)
			log := open(t, nc, natslog.Config{Partitions: 3})
			for p := range 3 {
				eventlogtest.Store(t, log, eventlogtest.Accounts(3, p, 1)[0], 0, "x")
			}
			c.change(t)
			got, err := natslog.Open(t.Context(), nc, c.cfg)
			if c.words[0] == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = got.Close()
				return
			}
			if err == nil {
				_ = got.Close()
				t.Fatal("it opens")
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if c.cfg.Partitions != 101 && !errors.Is(err, natslog.ErrLayout) {
				t.Errorf("%v is no ErrLayout", err)
			}
		})
	}
}

// A creation that was killed half-way is finished by the next open.
func TestInterruptedCreationIsFinished(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	log := open(t, nc, natslog.Config{Partitions: 4})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	deleteStreams(t, nc, "MUSTER_EV_00", "MUSTER_EV_01")
	again := open(t, nc, natslog.Config{Partitions: 4})
	if again.Partitions() != 4 {
		t.Errorf("%d partitions", again.Partitions())
	}
	for p := range 4 {
		eventlogtest.Store(t, again, eventlogtest.Accounts(4, p, 1)[0], 0, "x")
	}
}

func deleteStreams(t *testing.T, nc *nats.Conn, names ...string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}
