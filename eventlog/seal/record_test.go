package seal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/seal"
)

const number = "+15550100001"

// secrets are the texts of the history below that are personal.
var secrets = []string{number, "delivery-4711", "wamid.1", "secret words", "+15550177777", "contact-msg-0815", "chat:+15550188888", "Magdalena"}

// story is what happens to the account: its events, judged, with all that can be
// personal in them.
func story(t *testing.T) []domain.Event {
	t.Helper()
	judge := domain.NewJudge(lifecycle.Registry())
	at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC).UnixNano()
	lines := []string{
		`{"trigger":"start","id":"delivery-4711","labels":{"name":"Magdalena"}}`,
		`{"trigger":"connection_ready","source":"waha-1","epoch":3,"seq":1}`,
		`{"trigger":"message_sent","key":"wamid.1","data":{"text":"secret words"}}`,
		`{"trigger":"message_delivered","key":"wamid.1"}`,
		`{"trigger":"customer_message","key":"+15550177777","data":{"message":"contact-msg-0815"}}`,
		`{"trigger":"restricted","data":{"scope":"chat:+15550188888","until":"2026-01-02T00:00:00Z"},"reason":{"code":"131049","text":"by Magdalena"}}`,
		`{"trigger":"set_labels","data":{"labels":{"name":"Magdalena","pool":"eu"}}}`,
		`{"trigger":"restriction_lifted","data":{"scope":"chat:+15550188888"}}`,
		`{"trigger":"logout","source":"waha-1","epoch":3,"seq":2,"reason":{"code":"401"}}`,
		`{"trigger":"qr_scanned","source":"waha-1","epoch":3,"seq":3}`,
		`{"trigger":"forget"}`,
	}
	var acct *domain.Account
	var events []domain.Event
	for i, line := range lines {
		line = strings.Replace(line, "{", `{"account":"`+number+`",`, 1)
		tr, err := domain.ParseTrigger([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		d := judge.Decide(acct, &tr, at+int64(i)*int64(time.Second))
		if d.Event == nil {
			t.Fatalf("%s: %+v", line, d.Verdict)
		}
		acct = domain.Evolve(acct, d.Event)
		events = append(events, *d.Event)
	}
	return events
}

// record appends the story, chained as a writer does, and returns the records.
func record(t *testing.T, log eventlog.Log, events []domain.Event) [][]byte {
	t.Helper()
	var records [][]byte
	var link codec.Link
	var seq uint64
	for _, e := range events {
		e.Prev = link.Hash
		data, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		link = codec.LinkOf(&e, data)
		seq = eventlogtest.Store(t, log, number, seq, string(data))
		records = append(records, data)
	}
	return records
}

// fold checks the chain of records and folds them.
func fold(t *testing.T, records []eventlog.Record) *domain.Account {
	t.Helper()
	var acct *domain.Account
	var link codec.Link
	for _, r := range records {
		e, err := codec.Decode(r.Data)
		if err == nil {
			err = link.Check(r.Seq, &e)
		}
		if err != nil || string(e.Account) != r.Account {
			t.Fatalf("sequence %d of %s: %v", r.Seq, r.Account, err)
		}
		link = codec.LinkOf(&e, r.Data)
		acct = domain.Evolve(acct, &e)
	}
	return acct
}

// shape is what of an account must be the same with and without the key.
func shape(a *domain.Account) string {
	var conditions []string
	for _, c := range a.Conditions {
		conditions = append(conditions, c.Name)
	}
	return fmt.Sprintf("%s %s since %d, version %d, desired %s, forgotten %v, conditions %v, epoch %d, source %s",
		a.Machine, a.State, a.Since, a.Version, a.Desired, a.Forgotten, conditions, a.Epoch, a.Source)
}

func TestRecordsComeBackAndNothingPersonalIsStored(t *testing.T) {
	inner, keys := memlog.New(4), keysOf(t, 4)
	log := wrap(t, inner, keys)
	want := record(t, log, story(t))
	got := eventlogtest.MustCollect(t, log.Account(t.Context(), number, 1))
	for i := range want {
		if !bytes.Equal(got[i].Data, want[i]) || got[i].Account != number {
			t.Errorf("record %d came back as %q of %s", i, got[i].Data, got[i].Account)
		}
	}
	stored := eventlogtest.MustCollect(t, inner.Read(t.Context(), eventlog.Partition(number, 4), 0))
	for _, r := range stored {
		if !seal.Sealed(r.Data) {
			t.Errorf("sequence %d is not sealed", r.Seq)
		}
		for _, s := range secrets {
			if strings.Contains(r.Account, s) || bytes.Contains(r.Data, []byte(s)) {
				t.Errorf("sequence %d holds %q", r.Seq, s)
			}
		}
	}
	with, without := fold(t, got), fold(t, stored)
	if a, b := shape(with), shape(without); a != b {
		t.Errorf("without the key the account folds to\n%s, with it to\n%s", b, a)
	}
}

// The same must hold when another process goes on, which knows no hash.
func TestAnotherProcessGoesOnWithTheChain(t *testing.T) {
	inner, keys := memlog.New(1), keysOf(t, 1)
	events := story(t)
	var link codec.Link
	var seq uint64
	for _, e := range events {
		e.Prev = link.Hash
		data, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		link = codec.LinkOf(&e, data)
		fresh := wrap(t, inner, reopened(t, keys))
		seq = eventlogtest.Store(t, fresh, number, seq, string(data))
		keys = reopened(t, keys)
	}
	fold(t, eventlogtest.MustCollect(t, inner.Read(t.Context(), 0, 0)))
}

// reopened closes keys and opens them again.
func reopened(t *testing.T, keys *seal.Keys) *seal.Keys {
	t.Helper()
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := seal.Open(keys.Dir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() }) // it may be closed already
	return again
}

func TestEraseDestroysTheKey(t *testing.T) {
	inner, keys := memlog.New(1), keysOf(t, 1)
	log := wrap(t, inner, keys)
	record(t, log, story(t))
	eventlogtest.Store(t, log, "another", 0, "of another")
	var blobs memlog.Blobs
	if err := seal.WrapBlobs(&blobs, keys).Put(t.Context(), "snapshot", strings.NewReader(strings.Repeat(number, 9999))); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(keys.Dir(), "accounts.keys"))
	if err != nil || !bytes.Contains(old, []byte(number)) {
		t.Fatalf("the keys do not know the account: %v", err)
	}
	alias, _ := keys.Alias(number)
	done, err := keys.Erase([]string{number}, seal.Erased{At: time.Unix(9, 0), By: "me", Reason: "case 17"})
	if err != nil || len(done) != 1 || done[0].Alias != alias {
		t.Fatalf("erased %v, %v", done, err)
	}
	keys = reopened(t, keys)
	log = wrap(t, inner, keys)
	if e, ok := keys.Erased(alias); !ok || e.By != "me" || e.Reason != "case 17" {
		t.Errorf("of the erased account is known: %+v, %v", e, ok)
	}
	if _, err := log.Last(t.Context(), number); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("the last record of the erased account: %v", err)
	}
	left := eventlogtest.MustCollect(t, log.Account(t.Context(), alias, 1))
	if a := fold(t, left); len(left) != 11 || !a.Forgotten {
		t.Errorf("%d records are left of the erased account: %+v", len(left), a)
	}
	if r, err := log.Last(t.Context(), "another"); err != nil || string(r.Data) != "of another" {
		t.Errorf("another account: %q, %v", r.Data, err)
	}
	if _, err := seal.WrapBlobs(&blobs, keys).Get(t.Context(), "snapshot"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("a snapshot of before can be read: %v", err)
	}
	r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: alias, Data: []byte("x")}, {Account: "third", Data: []byte("x")}})
	if got := fmt.Sprint(eventlogtest.Classes(r)); got != "[refused stored]" || !errors.Is(r[0].Err, seal.ErrErased) {
		t.Errorf("an append to the erased account: %s, %v", got, r[0].Err)
	}
	list, err := os.ReadDir(keys.Dir())
	if err != nil || len(list) != 1 {
		t.Errorf("the folder of the keys holds %v, %v", list, err)
	}
	now, err := os.ReadFile(filepath.Join(keys.Dir(), "accounts.keys"))
	if err != nil || bytes.Contains(now, []byte(number)) {
		t.Errorf("the keys still name the account: %v", err)
	}
	eventlogtest.Store(t, log, number, 0, "a new account") // it may come back, as another one
	if again, _ := keys.Alias(number); again == alias {
		t.Error("an account that came back has its old alias")
	}
}

// What a crash leaves of a batch is cut off; damage is refused, and never costs the
// keys behind it.
func TestDamagedKeys(t *testing.T) {
	keys := keysOf(t, 2)
	log := wrap(t, memlog.New(2), keys)
	for _, id := range []string{"one", "two", "three"} {
		eventlogtest.Store(t, log, id, 0, "x")
	}
	path := filepath.Join(keys.Dir(), "accounts.keys")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(whole, []byte("three")) // the last frame's end
	for name, c := range map[string]struct {
		text     []byte
		accounts int // -1: refused
	}{
		"whole":               {whole, 3},
		"the last one cut":    {whole[:last+2], 2},
		"a head cut":          {append(bytes.Clone(whole), 1, 2, 3), 3},
		"room without bytes":  {append(bytes.Clone(whole), make([]byte, 100)...), 3},
		"a byte of the first": {flipped(whole, 20), -1},
		"a length":            {flipped(whole, bytes.Index(whole, []byte("one"))+3), -1},
		"a byte of the last":  {flipped(whole, last), -1},
		"no keys":             {[]byte("something else"), -1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "accounts.keys"), c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := seal.Open(dir, 2)
			if c.accounts < 0 {
				if !errors.Is(err, seal.ErrKeys) {
					t.Errorf("opened: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			if n := got.Accounts(); n != c.accounts {
				t.Errorf("%d accounts, want %d", n, c.accounts)
			}
		})
	}
	if _, err := seal.ReadOnly(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keys of an empty folder: %v", err)
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// A record that was altered is not taken for the account's.
func TestAlteredRecordDoesNotOpen(t *testing.T) {
	inner, keys := memlog.New(1), keysOf(t, 1)
	log := wrap(t, inner, keys)
	record(t, log, story(t)[:1])
	stored := eventlogtest.MustCollect(t, inner.Read(t.Context(), 0, 0))[0]
	for i := range stored.Data {
		plain := keys.Plain(number, flipped(stored.Data, i))
		if e, err := codec.Decode(plain); err == nil && e.Account == number {
			t.Errorf("byte %d: the altered record opens", i)
		}
	}
}

func TestKeysOfAnotherLog(t *testing.T) {
	if _, err := seal.Wrap(memlog.New(2), keysOf(t, 4)); !errors.Is(err, seal.ErrKeys) {
		t.Errorf("wrapped: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := wrap(t, memlog.New(1), keysOf(t, 1))
	if _, err := log.Last(ctx, "nobody"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("nobody's last record: %v", err)
	}
}
