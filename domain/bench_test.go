package domain_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

const t0 = int64(1_767_607_200_000_000_000) // 2026-01-05T10:00:00Z

func newJudge() *domain.Judge { return domain.NewJudge(lifecycle.Registry()) }

// life is what most accounts do first.
var life = []string{"start", "qr_received", "qr_scanned", "sync_completed", "connection_lost"}

func lifeTrigger(account, id string, i int) *domain.Trigger {
	return &domain.Trigger{ID: id, Account: domain.AccountID(account), Name: life[i], At: t0 + int64(i)*1e9, HasAt: true, Source: "wm-1",
		Epoch: 1_767_607_200_000, Seq: int64(i + 1), By: domain.ByUs, Expect: domain.NoExpect}
}

func grown(j *domain.Judge, account string, events int) *domain.Account {
	var a *domain.Account
	for i := range events {
		a = domain.Evolve(a, j.Decide(a, lifeTrigger(account, fmt.Sprintf("%s-%d", account, i), i), t0+int64(i)*1e9).Event)
	}
	return a
}

func BenchmarkDecide(b *testing.B) {
	j := newJudge()
	a := grown(j, "+15550100001", 4)
	t := lifeTrigger("+15550100001", "01JH8ZQ4T5E6M7N8P9R0S1T2V3", 4)
	b.ReportAllocs()
	for b.Loop() {
		if d := j.Decide(a, t, t0); d.Event == nil || d.Event.Outcome != domain.Applied {
			b.Fatal(d.Verdict)
		}
	}
}

func BenchmarkEvolve(b *testing.B) {
	j := newJudge()
	a := grown(j, "+15550100001", 4)
	e := j.Decide(a, lifeTrigger("+15550100001", "01JH8ZQ4T5E6M7N8P9R0S1T2V3", 4), t0).Event
	b.ReportAllocs()
	for b.Loop() {
		c := a.Clone()
		if domain.Evolve(c, e).State != "DISCONNECTED" {
			b.Fatal(c.State)
		}
	}
}

func BenchmarkDue(b *testing.B) {
	j := newJudge()
	a := grown(j, "+15550100001", 5)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := j.Due(a); !ok {
			b.Fatal("no deadline")
		}
	}
}

func BenchmarkParseTrigger(b *testing.B) {
	line := []byte(`{"id":"evt_01hzzzzzzzzzzzzzzzzzzzzzzz","account":"acct-1","trigger":"connection_lost","at":"2026-01-05T10:00:00.123Z","source":"wm-1","epoch":1767607200000,"seq":17,"by":"remote","reason":{"code":"515"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := domain.ParseTrigger(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendCanonical(b *testing.B) {
	a := grown(newJudge(), "+15550100001", 5)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = domain.AppendCanonical(buf[:0], a)
	}
}

// An account with five events has to be small: there are hundreds of thousands.
func TestAnAccountIsSmall(t *testing.T) {
	const accounts, most = 20_000, 450
	j := newJudge()
	keep := make([]*domain.Account, 0, accounts)
	before := heap()
	for i := range accounts {
		keep = append(keep, grown(j, fmt.Sprintf("+1555%07d", i), 5))
	}
	each := (heap() - before) / accounts
	t.Logf("%d bytes per account with 5 events and 5 ids; the struct has %d", each, unsafe.Sizeof(domain.Account{}))
	if each > most {
		t.Errorf("an account takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(keep)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
