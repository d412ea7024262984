package domain_test

import (
	"fmt"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// A trigger is read, judged and folded; the account says what is due next.
func Example() {
	judge := domain.NewJudge(lifecycle.Registry())
	now := time.Date(2026, 1, 1, 10, 0, 1, 0, time.UTC).UnixNano()

	var account *domain.Account
	for _, line := range []string{
		`{"account":"acct-1","trigger":"start","at":"2026-01-01T10:00:00Z","source":"ops","by":"user"}`,
		`{"account":"acct-1","trigger":"qr_received","at":"2026-01-01T10:00:01Z","source":"wm-1"}`,
		`{"account":"acct-1","trigger":"sync_completed","source":"wm-1","expect":1}`,
	} {
		trigger, err := domain.ParseTrigger([]byte(line))
		if err != nil {
			fmt.Println(err)
			continue
		}
		d := judge.Decide(account, &trigger, now)
		if d.Event == nil {
			fmt.Println(d.Verdict.Outcome, "-", d.Verdict.Reason)
			continue
		}
		account = domain.Evolve(account, d.Event)
		fmt.Println(domain.LogLine(d.Event))
	}
	next, _ := judge.Due(account)
	fmt.Println(judge.Attention(account), next.Trigger.Name, domain.FormatTime(next.At))
	// Output:
	// [2026-01-01T10:00:00.000Z] acct-1: IDLE -> CONNECTING via start
	// [2026-01-01T10:00:01.000Z] acct-1: CONNECTING -> QR_REQUIRED via qr_received
	// conflict - version 1 was expected, the account is at 2
	// [scan_qr] mark_stuck 2026-01-01T10:10:01Z
}
