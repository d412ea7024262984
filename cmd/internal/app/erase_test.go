package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog/natstest"
)

// A stream that is rewritten keeps its sequences and what is not personal, and a
// bucket forgets what is; nothing is left of an interruption.
func TestRewrittenStreams(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MUSTER_ALERTS", Subjects: []string{"muster.alerts"}, DenyDelete: true, FirstSeq: 5}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"a":"acct-1","n":12345678901234567}`, `{"a":"acct-10"}`, `{"why":"acct-1: hidden text"}`} {
		if _, err := js.Publish(ctx, "muster.alerts", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "MUSTER_HOOKS", History: 1})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"waha.session": "acct-1", "waha.=2B1": "acct-10", "waha.acct-1": "x"} {
		if _, err := kv.PutString(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	w := &eraser{Erasure: Erasure{Account: "acct-1"}, nc: nc, js: js, dir: filepath.Join(t.TempDir(), erasingDir),
		alias: "~aaaabbbbccccdddd", texts: map[string]bool{"acct-1": true, "hidden text": true}}
	if err := w.cleanStreams(ctx); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, "MUSTER_ALERTS")
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]string{5: `{"a":"~aaaabbbbccccdddd","n":12345678901234567}`, 6: `{"a":"acct-10"}`, 7: `{"why":"~aaaabbbbccccdddd: erased"}`} {
		if m, err := stream.GetMsg(ctx, seq); err != nil || string(m.Data) != want {
			t.Errorf("message %d is %v, %v", seq, m, err)
		}
	}
	if kv, err = js.KeyValue(ctx, "MUSTER_HOOKS"); err != nil {
		t.Fatal(err)
	}
	if keys, err := kv.Keys(ctx); err != nil || strings.Join(keys, " ") != "waha.=2B1" {
		t.Errorf("the bucket holds %q, %v", keys, err)
	}
	if list, err := os.ReadDir(w.dir); !os.IsNotExist(err) {
		t.Errorf("the streams on their way are still there: %v, %v", list, err)
	}

	// A stream was deleted and the process ended.
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"config":{"name":"MUSTER_ALERTS","subjects":["muster.alerts"],"first_seq":5},"messages":[{"subject":"muster.alerts","data":"e30="}]}`
	if err := writeSynced(filepath.Join(w.dir, "MUSTER_ALERTS"), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errIfErasing(filepath.Dir(w.dir)); err == nil {
		t.Error("data that an erasure has left half-way would be served")
	}
	if err := w.resume(ctx); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(ctx); err != nil || info.State.Msgs != 1 || info.State.FirstSeq != 5 {
		t.Errorf("the stream after going on: %+v, %v", info, err)
	}
	if err := errIfErasing(filepath.Dir(w.dir)); err != nil {
		t.Error(err)
	}
}
