package domain_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

var (
	seed      = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random sequences; a failure prints it")
	sequences = flag.Int("sequences", 100_000, "random sequences per machine")
	atMost    = flag.Duration("at-most", 30*time.Second, "time for the random sequences; those that did not fit in are counted")
)

// TestRandomSequences plays random triggers on every machine and holds the judge
// and the fold to what must always be true.
func TestRandomSequences(t *testing.T) {
	end := time.Now().Add(*atMost)
	for _, name := range []string{"whatsapp@1", "whatsapp@2", "wecom@1", "instance@1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := *seed
			t.Logf("seed %d (-seed %d plays it again)", s, s)
			j := newJudge()
			m, _ := j.Machines().Get(name)
			p := player{judge: j, machine: m}
			for i := range *sequences {
				if i%256 == 0 && time.Now().After(end) {
					t.Logf("%d of %d sequences fitted into %s", i, *sequences, *atMost)
					return
				}
				p.r = rand.New(rand.NewPCG(s, uint64(i)))
				if err := p.play(i%50 == 0); err != nil {
					t.Fatalf("seed %d, sequence %d: %v\n%s", s, i, err, strings.Join(p.said, "\n"))
				}
			}
		})
	}
}

// player plays one random sequence after the other.
type player struct {
	judge   *domain.Judge
	machine *machine.Machine
	r       *rand.Rand
	a       *domain.Account
	other   *domain.Account // the same, but written and read back on the way
	now     int64
	said    []string
	events  []*domain.Event
	seq     int64
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// play plays one sequence; thorough checks everything at each step.
func (p *player) play(thorough bool) error {
	p.a, p.other, p.now, p.said, p.events, p.seq = nil, nil, t0, p.said[:0], p.events[:0], 0
	for range 1 + p.r.IntN(16) {
		p.now += pick[int64](p.r, 0, 1, 2, 30, 60, 300, 600, 1800, 90_000) * sec
		if err := p.fire(); err != nil {
			return err
		}
		if err := p.step(p.random(), thorough); err != nil {
			return err
		}
	}
	if thorough {
		return p.refold()
	}
	return nil
}

// fire judges the deadlines up to now; each must be legal and must not be due again.
func (p *player) fire() error {
	var last domain.Deadline
	for range 200 {
		d, ok := p.judge.Due(p.a)
		if !ok || d.At > p.now {
			return nil
		}
		if d.At == last.At && d.Rank == last.Rank && d.Sub == last.Sub && d.Trigger.Name == last.Trigger.Name {
			return fmt.Errorf("deadline %s is due again after it was judged", d.Trigger.Name)
		}
		last = d
		d.Trigger.At = p.now
		dec := p.judge.Decide(p.a, &d.Trigger, p.now)
		if o := dec.Verdict.Outcome; o != domain.Applied && o != domain.Noop {
			return fmt.Errorf("deadline %s is judged %s: %s", d.Trigger.Name, o, dec.Verdict.Reason)
		}
		p.fold(dec)
	}
	return fmt.Errorf("200 deadlines at one time")
}

func (p *player) fold(d domain.Decision) {
	p.said = append(p.said, domain.LogLine(d.Event))
	p.events = append(p.events, d.Event)
	p.a = domain.Evolve(p.a, d.Event)
	p.other = domain.Evolve(p.other, d.Event)
}

// step judges one trigger and checks what came of it.
func (p *player) step(t *domain.Trigger, thorough bool) error {
	before := p.a
	var image []byte
	if thorough && before != nil {
		image = domain.AppendCanonical(nil, before)
	}
	d := p.judge.Decide(p.a, t, p.now)
	if thorough {
		if err := p.again(t, d, image); err != nil {
			return err
		}
	}
	if d.Event == nil {
		p.said = append(p.said, fmt.Sprintf("%s: %s", t.Name, d.Verdict.Outcome))
		if d.Beat != 0 && p.a != nil {
			p.a.Beat(t, d.Beat)
			p.other.Beat(t, d.Beat)
		}
		return nil
	}
	if before != nil {
		p.a = before.Clone()
	}
	p.fold(d)
	if image != nil && !bytes.Equal(image, domain.AppendCanonical(nil, before)) {
		return fmt.Errorf("%s: folding into a clone changed the original", t.Name)
	}
	if thorough {
		if err := p.readBack(); err != nil {
			return err
		}
	}
	return p.check(t, before, d)
}

// again judges the same input once more, and as JSON and as a map, and expects the same.
func (p *player) again(t *domain.Trigger, d domain.Decision, image []byte) error {
	if two := p.judge.Decide(p.a, t, p.now); !reflect.DeepEqual(d, two) {
		return fmt.Errorf("%s: judged twice it is %+v and %+v", t.Name, d, two)
	}
	if image != nil && !bytes.Equal(image, domain.AppendCanonical(nil, p.a)) {
		return fmt.Errorf("%s: judging changed the account", t.Name)
	}
	if t.Source == domain.SourceMuster {
		return nil
	}
	read, err := domain.ParseTrigger(t.AppendJSON(nil))
	if err != nil {
		return fmt.Errorf("%s: written as JSON it cannot be read: %w", t.Name, err)
	}
	if three := p.judge.Decide(p.a, &read, p.now); !reflect.DeepEqual(d, three) {
		return fmt.Errorf("%s: from JSON it is %+v, else %+v", t.Name, three, d)
	}
	return nil
}

// readBack replaces the second account by what its binary form gives.
func (p *player) readBack() error {
	b, err := p.other.MarshalBinary()
	if err != nil {
		return err
	}
	var back domain.Account
	if err := back.UnmarshalBinary(b); err != nil {
		return err
	}
	if x, y := p.other.Extra, back.Extra; x != nil && x.Beat != 0 {
		if y == nil {
			y = &domain.Extra{}
			back.Extra = y
		}
		y.Beat = x.Beat // memory only
	}
	if !reflect.DeepEqual(&back, p.other) {
		return fmt.Errorf("written and read back the account is\n%+v, not\n%+v", back, *p.other)
	}
	p.other = &back
	return nil
}

// check compares the verdict with the fold.
func (p *player) check(t *domain.Trigger, before *domain.Account, d domain.Decision) error {
	e, v, a := d.Event, d.Verdict, p.a
	var version uint64
	state := p.machine.Initial()
	if before != nil {
		version, state = before.Version, before.State
	}
	switch {
	case v.Version != version+1 || e.Version != v.Version || a.Version != v.Version:
		return fmt.Errorf("%s: version %d, event %d, fold %d after %d", t.Name, v.Version, e.Version, a.Version, version)
	case p.machine.Class(a.State) == "":
		return fmt.Errorf("%s: state %s is not in the table", t.Name, a.State)
	case e.Outcome != domain.Applied && (v.From != v.To || a.State != state):
		return fmt.Errorf("%s is %s, yet %s became %s (%s to %s)", t.Name, e.Outcome, state, a.State, v.From, v.To)
	case (e.Kind == domain.KindSession || e.Kind == domain.KindMark) && (v.From != state || a.State != v.To):
		return fmt.Errorf("%s: the verdict says %s to %s, the fold %s to %s", t.Name, v.From, v.To, state, a.State)
	case e.Kind == domain.KindSession && e.Outcome == domain.Applied && v.From == v.To:
		return fmt.Errorf("%s is applied, and nothing changed", t.Name)
	case (e.Outcome == domain.Rejected || e.Outcome == domain.Stale) && (e.Effects != 0 || len(e.Ended) > 0 || e.Outcome == domain.Stale && len(e.Set) > 0):
		return fmt.Errorf("%s is %s and has effects", t.Name, e.Outcome)
	case !slices.IsSortedFunc(a.Conditions, func(x, y domain.Condition) int { return strings.Compare(x.Name+"\x00"+x.Scope, y.Name+"\x00"+y.Scope) }):
		return fmt.Errorf("%s: conditions are not in order: %v", t.Name, a.Conditions)
	}
	if e.Kind == domain.KindMessage && e.Outcome != domain.Rejected {
		if m, ok := a.Message(t.Key); ok && m.State != v.To {
			return fmt.Errorf("%s: message %s is %s, the verdict says %s", t.Name, t.Key, m.State, v.To)
		}
	}
	if t.ID == "" {
		return nil
	}
	dup := p.judge.Decide(a, &domain.Trigger{ID: t.ID, Account: t.Account, Name: "forget", Expect: domain.NoExpect}, p.now)
	if w := dup.Verdict; dup.Event != nil || w.Outcome != domain.Duplicate || w.From != v.From || w.To != v.To || w.Version != v.Version || w.Earlier != v.Outcome {
		return fmt.Errorf("%s: its id again gives %+v, want the earlier %+v", t.Name, w, v)
	}
	return nil
}

// refold folds the events anew, from copies, and compares.
func (p *player) refold() error {
	if p.a == nil {
		return nil
	}
	var a *domain.Account
	var f domain.Folding
	for _, e := range p.events {
		copied := *e
		a = domain.Evolve(a, &copied)
		f.Evolve(&copied)
	}
	if !bytes.Equal(domain.AppendCanonical(nil, a), domain.AppendCanonical(nil, f.Account())) {
		return fmt.Errorf("a Folding of the events gives another account")
	}
	if d := domain.Digest([]*domain.Account{p.a}); d != domain.Digest([]*domain.Account{a}) || d != domain.Digest([]*domain.Account{p.other}) {
		return fmt.Errorf("the events folded anew, or on top of what was written and read back, give another account")
	}
	return nil
}

var others = []string{"message_pending", "message_sent", "message_delivered", "message_read", "message_replied", "message_failed",
	"customer_message", "take_over", "human_replied", "hand_back", "end", "claim", "set_mode", "set_labels", "authority", "forget", "recover", "vouch_lost", "vouch_restored", "heartbeat"}

// random makes a trigger that may come at any time.
func (p *player) random() *domain.Trigger {
	r := p.r
	t := &domain.Trigger{Account: "acct-1", At: p.now - pick[int64](r, 0, 0, 0, 1, 60, 700)*sec, HasAt: r.IntN(10) > 0, Source: pick(r, "s1", "s1", "s2"),
		By: pick(r, domain.ByUser, domain.ByUs, domain.ByRemote, domain.ByUnknown, ""), Expect: domain.NoExpect, Machine: p.machine.Name(), Mode: pick(r, "observe", "supervise", "")}
	t.Name = pick(r, p.machine.Definition().Triggers...)
	if r.IntN(4) == 0 {
		t.Name = pick(r, others...)
	}
	if r.IntN(40) == 0 {
		t.Name = pick(r, "online", "login_started", "probe_ok") // of another machine
	}
	if r.IntN(3) == 0 {
		t.ID = fmt.Sprint("id", r.IntN(8))
	}
	if r.IntN(2) == 0 {
		p.seq++
		t.Epoch, t.Seq = 1+r.Int64N(3), pick(r, 0, p.seq, p.seq-1)
	}
	if r.IntN(30) == 0 {
		t.Expect = r.Int64N(5)
	}
	if r.IntN(4) == 0 {
		t.Reason = domain.Reason{Code: pick(r, "401", "")}
	}
	if group, ok := machine.Reserved(t.Name); ok && (group == machine.GroupRecover || group == machine.GroupMark) {
		t.Source = domain.SourceMuster
	}
	t.Key = pick(r, "k1", "k2", "k3")
	t.Data = p.data(t.Name)
	return t
}

// data makes the payload of a trigger.
func (p *player) data(name string) domain.Data {
	r := p.r
	soon := func() string { return domain.FormatTime(p.now + pick[int64](r, -60, 0, 1, 60, 600, 3600, 90_000)*sec) }
	switch name {
	case "rate_limited", "restricted", "banned":
		return domain.Data{"until": soon(), "scope": pick(r, "", "groups"), "code": "104"}
	case "restriction_lifted":
		return pick(r, nil, domain.Data{"scope": "groups"})
	case "adopt":
		return domain.Data{"state": pick(r, "RUNNING", "DEGRADED", "DISCONNECTED", "SYNCING")}
	case "user_action_needed":
		return pick(r, nil, domain.Data{"action": "open_phone"})
	case "login_succeeded", "ticket_renewed", "reconnected":
		return pick(r, nil, domain.Data{"sid_until": soon(), "tgt_until": soon()}, domain.Data{"tgt_until": soon()})
	case "sync_completed", "sync_advanced":
		return pick(r, nil, domain.Data{"next_seq": r.Int64N(10)}, domain.Data{"next_seq": r.Int64N(10), "full": true})
	case "message_pending", "message_sent":
		return pick(r, nil, domain.Data{"reply_within": r.Int64N(5000)})
	case "customer_message":
		return domain.Data{"message": pick(r, "i1", "i2", "i3")}
	case "claim":
		return domain.Data{"message": pick(r, "i1", "i2", "i3"), "side": pick(r, "bot", "human"), "handler": pick(r, "b1", "b2", "human")}
	case "set_mode":
		return domain.Data{"mode": pick(r, "observe", "supervise")}
	case "set_labels":
		return pick(r, nil, domain.Data{"labels": map[string]any{"pool": "eu"}})
	case "authority":
		return domain.Data{"source": pick(r, "s1", "s2")}
	case "recover":
		return pick(r, nil, domain.Data{"worker": false})
	}
	return nil
}
