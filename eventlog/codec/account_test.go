package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/snapshot"
)

// fill sets every exported field below v to a value that is not zero, except
// those named in keep.
func fill(t *testing.T, v reflect.Value, path string, seed *int64, keep map[string]bool) {
	t.Helper()
	*seed++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *seed))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*seed * 1_000_003)
	case reflect.Uint64:
		v.SetUint(uint64(*seed))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, seed, keep)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), path+"[]", seed, keep)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, path+"[]", seed, keep)
			fill(t, elem, path+"[]", seed, keep)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); !keep[path+"."+f.Name] {
				fill(t, v.Field(i), path+"."+f.Name, seed, keep)
			}
		}
	default:
		t.Fatalf("%s is a %v, which this test cannot set", path, v.Type())
	}
}

// fullAccount has every field set: Recent and Talk, whose insides are the
// domain's own, by events, and the others by reflection.
func fullAccount(t *testing.T) *domain.Account {
	t.Helper()
	var a *domain.Account
	for v, e := range []domain.Event{
		{Kind: domain.KindSession, Trigger: "start", Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", Machine: "whatsapp@2", Initial: "IDLE"},
		{Kind: domain.KindMessage, Key: "m-1", Trigger: "message_sent", Outcome: domain.Applied, To: "SENT"},
		{Kind: domain.KindMessage, Key: "m-2", Trigger: "message_replied", Outcome: domain.Applied, To: "REPLIED"},
		{Kind: domain.KindConversation, Key: "c-1", Trigger: "customer_message", Outcome: domain.Applied, From: "BOT", To: "BOT",
			Data: domain.Data{"message": "m-9"}, Effects: domain.EffectOpensTurn},
	} {
		e.Account, e.Version, e.ID, e.At = "acct-1", uint64(v)+1, fmt.Sprintf("id-%d", v), 1767261600000000000+int64(v)
		a = domain.Evolve(a, &e)
	}
	if a.Talk == nil || a.Recent == "" {
		t.Fatal("the events were to set Talk and Recent")
	}
	// Beats are not stored; the others were set above.
	seed := int64(0)
	fill(t, reflect.ValueOf(a).Elem(), "Account", &seed, map[string]bool{"Account.Extra.Beat": true, "Account.Recent": true, "Account.Talk": true})
	return a
}

// accountDecoders are the two ways to read an account.
func accountDecoders() map[string]func([]byte) (*domain.Account, error) {
	return map[string]func([]byte) (*domain.Account, error){"decode": codec.DecodeAccount, "reader": codec.NewReader().Account}
}

func state(tb testing.TB, dst []byte, a *domain.Account) []byte {
	tb.Helper()
	b, err := codec.AppendAccount(dst, a)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestAnAccountWithoutAnIDIsNotEncoded(t *testing.T) {
	if b, err := codec.AppendAccount([]byte("before"), &domain.Account{}); !errors.Is(err, codec.ErrUnencodable) || string(b) != "before" {
		t.Errorf("got %q, %v; want ErrUnencodable and nothing appended", b, err)
	}
}

// A field that a snapshot forgets is lost at a restart.
func TestEveryFieldOfAnAccountSurvives(t *testing.T) {
	want := fullAccount(t)
	b := bytes.TrimPrefix(state(t, []byte("before"), want), []byte("before"))
	for name, decode := range accountDecoders() {
		got, err := decode(bytes.Clone(b))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		for range 20 { // maps have no order of their own
			if again := state(t, nil, got); !bytes.Equal(again, b) {
				t.Fatalf("%s: the same account gives other bytes\n got %x\nwant %x", name, again, b)
			}
		}
		for n := range b {
			if _, err := decode(b[:n:n]); !errors.Is(err, codec.ErrMalformed) {
				t.Fatalf("%s, the first %d of %d bytes: got %v, want ErrMalformed", name, n, len(b), err)
			}
		}
		if _, err := decode(append(bytes.Clone(b), 0)); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s, a byte too many: got %v, want ErrMalformed", name, err)
		}
	}
}

// A fleet's accounts hold the same names; after a start from a snapshot they
// must not each have their own.
func TestAccountsShareTheirNames(t *testing.T) {
	r := codec.NewReader()
	var all [2]*domain.Account
	for i := range all {
		a := benchAccount()
		a.ID, a.Machine, a.State = domain.AccountID(fmt.Sprintf("acct-%d", i)), "ours@3", "WAITING"
		a.Conditions = []domain.Condition{{Name: "restricted", Scope: "groups", Reason: "429"}}
		var err error
		if all[i], err = r.Account(state(t, nil, &a)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*all[i], a) {
			t.Errorf("\n got %+v\nwant %+v", *all[i], a)
		}
	}
	record, err := codec.Encode(&domain.Event{Version: 1, Account: "acct-2", Kind: domain.KindSession, Trigger: "start", Outcome: domain.Noop, From: "WAITING"})
	if err != nil {
		t.Fatal(err)
	}
	var e domain.Event
	if err := r.Fold(record, &e); err != nil {
		t.Fatal(err)
	}
	names := func(a *domain.Account) []string {
		return []string{a.Machine, a.Mode, a.Desired, a.State, a.Source, a.Sources[0].Source, a.Labels["pool"], a.Conditions[0].Name, a.Conditions[0].Scope, a.Conditions[0].Reason}
	}
	second := names(all[1])
	for i, name := range names(all[0]) {
		if unsafe.StringData(name) != unsafe.StringData(second[i]) {
			t.Errorf("%q is held twice", name)
		}
	}
	if unsafe.StringData(e.From) != unsafe.StringData(all[0].State) {
		t.Errorf("%q of a folded event is held once more", e.From)
	}
}

// benchAccount is an account as most of a fleet's are.
func benchAccount() domain.Account {
	var a *domain.Account
	for v := range 5 {
		e := benchEvents()["session"]
		e.Version, e.ID, e.Machine, e.Initial, e.To = uint64(v)+1, fmt.Sprintf("id-%d", v), "whatsapp@2", "IDLE", "RUNNING"
		e.Labels = map[string]string{"pool": "eu"}
		a = domain.Evolve(a, &e)
	}
	return *a
}

func BenchmarkAccount(b *testing.B) {
	a := benchAccount()
	buf := state(b, nil, &a)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = state(b, buf[:0], &a)
		}
		b.ReportMetric(float64(len(buf)), "B/account")
	})
	for name, decode := range accountDecoders() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accounts/s")
		})
	}
}

// BenchmarkLoadSnapshot loads a snapshot of 20 000 accounts into a map, as a
// start does, on one core, and reports the best round.
func BenchmarkLoadSnapshot(b *testing.B) {
	const count = 20_000
	entries := func(yield func(snapshot.Entry) bool) {
		a := benchAccount()
		for i := range count {
			a.ID, a.Since, a.Seq = domain.AccountID(fmt.Sprintf("+1555%07d", i)), a.Since+7919, int64(i)
			buf := state(b, nil, &a)
			if !yield(snapshot.Entry{Account: string(a.ID), Seq: uint64(i), Hash: codec.Hash(buf), State: buf}) {
				return
			}
		}
	}
	var file bytes.Buffer
	if err := snapshot.Write(&file, snapshot.Header{Count: count}, entries); err != nil {
		b.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	best := time.Hour
	var bytesEach float64
	for b.Loop() {
		before := heap()
		began := time.Now()
		all := loadAll(b, file.Bytes(), count)
		best = min(best, time.Since(began))
		bytesEach = float64(heap()-before) / count
		runtime.KeepAlive(all)
	}
	b.ReportMetric(count/best.Seconds(), "accounts/s")
	b.ReportMetric(float64(file.Len())/count, "file-B/account")
	b.ReportMetric(bytesEach, "heap-B/account")
}

func loadAll(b *testing.B, file []byte, count int) map[domain.AccountID]*domain.Account {
	r := codec.NewReader()
	all := make(map[domain.AccountID]*domain.Account, count)
	_, entries, err := snapshot.Read(bytes.NewReader(file), snapshot.Want{})
	if err != nil {
		b.Fatal(err)
	}
	for e, err := range entries {
		if err != nil {
			b.Fatal(err)
		}
		a, err := r.Account(e.State)
		if err != nil {
			b.Fatal(err)
		}
		all[a.ID] = a
	}
	return all
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
