package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
)

// Planted are accounts with a known fault, for the demo: one that is banned, one
// whose session somebody else keeps taking over, and one whose QR code nobody
// scans; and one that is well. Their past ends now. Sorted by time.
func Planted(now time.Time) []domain.Trigger {
	p := planter{now: now}
	p.up("demo-1")
	p.up("demo-banned")
	p.say("demo-banned", 4*time.Minute, "banned", "104", domain.Data{"until": domain.FormatTime(now.Add(20 * time.Hour).UnixNano())})
	p.up("demo-replaced")
	for n := range 5 {
		at := 9*time.Minute - time.Duration(n)*90*time.Second
		p.say("demo-replaced", at, "connection_replaced", "440", nil)
		if n < 4 {
			p.connect("demo-replaced", at-70*time.Second, "connection_ready")
		}
	}
	p.start("demo-qr", 13*time.Minute)
	p.connect("demo-qr", 13*time.Minute-2*time.Second, "qr_received")
	p.say("demo-qr", 12*time.Minute, "qr_received", "", nil)
	slices.SortStableFunc(p.said, func(a, b domain.Trigger) int { return cmp.Compare(a.At, b.At) })
	return p.said
}

type planter struct {
	now   time.Time
	epoch int64
	seq   int64
	said  []domain.Trigger
}

// add says something that happened some time ago.
func (p *planter) add(account string, ago time.Duration, t domain.Trigger) {
	t.Account, t.At, t.HasAt, t.Expect = domain.AccountID(account), p.now.Add(-ago).UnixNano(), true, domain.NoExpect
	t.ID = name("demo-"+account+"-"+t.Name+"-", t.At)
	p.said = append(p.said, t)
}

// start is an operator's start, with which the account becomes known.
func (p *planter) start(account string, ago time.Duration) {
	p.add(account, ago, domain.Trigger{Name: "start", Source: "ops", By: domain.ByUser, Labels: map[string]string{"pool": "eu", "tier": "gold"}})
}

// connect is the first word of a new connection.
func (p *planter) connect(account string, ago time.Duration, trigger string) {
	p.epoch, p.seq = max(p.epoch+1, p.now.Add(-ago).UnixMilli()), 0
	p.say(account, ago, trigger, "", nil)
}

func (p *planter) say(account string, ago time.Duration, trigger, code string, data domain.Data) {
	p.seq++
	p.add(account, ago, domain.Trigger{
		Name: trigger, Source: "sim-worker-2", Epoch: p.epoch, Seq: p.seq, Reason: domain.Reason{Code: code}, Data: data,
	})
}

// up brings an account online.
func (p *planter) up(account string) {
	p.start(account, 14*time.Minute)
	p.connect(account, 14*time.Minute-3*time.Second, "qr_received")
	p.say(account, 14*time.Minute-40*time.Second, "qr_scanned", "", nil)
	p.say(account, 14*time.Minute-50*time.Second, "sync_completed", "", nil)
}
