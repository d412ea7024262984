// Package projectiontest holds views to the rules of projections.View: the
// same history gives the same answers, however it is interleaved, repeated,
// interrupted, saved and loaded, or folded again.
//
// It owns the random histories (judged by the real judge, so that they are
// such as a log can hold) and the checks that run them through a view. It is
// for tests only.
package projectiontest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
)

// Config says what a history is like. The zero Config is a small one.
type Config struct {
	Partitions int // 0: 3
	Accounts   int // 0: 40
	Events     int // 0: 1500
	Talk       int // of 100 triggers so many are about messages and conversations; 0: few are
	Lost       int // of 1000 events so many are lost afterwards, and their accounts are damaged
}

// Item is one event at its place.
type Item struct {
	At    projections.Place
	Event *domain.Event
	// Damaged: an event of the account that should stand before this one is lost.
	Damaged bool
}

// History is a random history and the fold that it ends in.
type History struct {
	Partitions int
	Judge      *domain.Judge
	Roster     *projections.Roster // knows all accounts
	Items      []Item              // in the order of judging
	Folds      map[domain.AccountID]*domain.Account
	End        int64 // unix ns: when the last event was judged
}

// Epoch is when histories begin.
var Epoch = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC).UnixNano()

// Registry returns the machines of histories: the built-in ones, and one whose
// states do not have the usual names.
func Registry() *machine.Registry {
	reg := lifecycle.Registry()
	err := reg.Add(machine.MustCompile(machine.Definition{
		Name: "lamp@1", Initial: "NEW",
		States: []machine.State{
			{Name: "NEW", Class: machine.ClassIdle},
			{Name: "WARMING", Class: machine.ClassStarting},
			{Name: "LIT", Class: machine.ClassReady, Can: machine.Capabilities(), Stable: true},
			{Name: "DARK", Class: machine.ClassDown, Stable: true},
		},
		Triggers: []string{"switch_on", "glow", "fail", "switch_off"},
		Edges: []machine.Edge{
			{On: machine.Names{"switch_on"}, From: machine.Names{"NEW", "DARK"}, To: "WARMING"},
			{On: machine.Names{"glow"}, From: machine.Names{"NEW", "WARMING"}, To: "LIT"},
			{On: machine.Names{"fail"}, From: machine.Names{"WARMING", "LIT"}, To: "DARK"},
			{On: machine.Names{"switch_off"}, From: machine.Names{"WARMING", "LIT", "DARK"}, To: "NEW"},
		},
	}))
	if err != nil {
		panic(err)
	}
	return reg
}

// generator makes a history.
type generator struct {
	*History
	rng  *rand.Rand
	now  int64
	seqs []uint64
	talk int // of 100
}

// Generate makes a history; the same seed and config give the same one.
func Generate(seed uint64, cfg Config) *History {
	h := &History{
		Partitions: orElse(cfg.Partitions, 3),
		Judge:      domain.NewJudge(Registry()),
		Folds:      map[domain.AccountID]*domain.Account{},
	}
	h.Roster = projections.NewRoster(h.Partitions)
	g := &generator{History: h, rng: rand.New(rand.NewPCG(seed, 7)), now: Epoch, seqs: make([]uint64, h.Partitions), talk: cfg.Talk}
	accounts, events := orElse(cfg.Accounts, 40), orElse(cfg.Events, 1500)
	for len(h.Items) < events {
		g.now += int64(g.rng.ExpFloat64() * float64(20*time.Second))
		id := domain.AccountID(fmt.Sprintf("+1555%07d", g.rng.IntN(accounts)))
		if g.rng.IntN(8) == 0 && g.deadline(id) {
			continue
		}
		switch g.rng.IntN(100) {
		case 0:
			g.flap(id)
		case 1:
			g.ours(id)
		default:
			t := g.trigger(id)
			g.judge(&t)
		}
	}
	h.End = g.now
	if cfg.Lost > 0 {
		g.lose(cfg.Lost)
	}
	return h
}

// Until returns the first n events of a history, and the fold that they end in.
// The roster is that of the whole.
func (h *History) Until(n int) *History {
	p := &History{
		Partitions: h.Partitions, Judge: h.Judge, Roster: h.Roster, Items: h.Items[:n],
		Folds: map[domain.AccountID]*domain.Account{}, End: Epoch,
	}
	for _, i := range p.Items {
		p.Folds[i.Event.Account] = domain.Evolve(p.Folds[i.Event.Account], i.Event)
		p.End = max(p.End, i.Event.Recorded)
	}
	return p
}

// lose takes events out of the history, as a damaged disk would: what was judged
// behind them stays as it is. The last event of an account stays, since nobody
// would miss it.
func (g *generator) lose(of1000 int) {
	last := map[domain.AccountID]int{}
	for n, i := range g.Items {
		last[i.Event.Account] = n
	}
	var kept []Item
	missed := map[domain.AccountID]bool{}
	g.Roster = projections.NewRoster(g.Partitions)
	clear(g.seqs)
	for n, i := range g.Items {
		id := i.Event.Account
		if g.rng.IntN(1000) < of1000 && n != last[id] && i.Event.Version > 1 {
			missed[id] = true
			continue
		}
		p := i.At.Partition
		g.seqs[p]++
		i.At.Seq, i.At.Account, i.Damaged = g.seqs[p], g.Roster.Ids(p).Add(string(id)), missed[id]
		delete(missed, id)
		kept = append(kept, i)
	}
	g.Items = kept
	g.Folds = g.Until(len(kept)).Folds
}

func orElse(n, standard int) int {
	if n == 0 {
		return standard
	}
	return n
}

// judge judges a trigger and, when it is appended, folds its event.
func (g *generator) judge(t *domain.Trigger) {
	e := g.Judge.Decide(g.Folds[t.Account], t, g.now).Event
	if e == nil {
		return
	}
	g.Folds[t.Account] = domain.Evolve(g.Folds[t.Account], e)
	p := eventlog.Partition(string(t.Account), g.Partitions)
	g.seqs[p]++
	g.Items = append(g.Items, Item{
		At:    projections.Place{Partition: p, Seq: g.seqs[p], Account: g.Roster.Ids(p).Add(string(t.Account))},
		Event: e,
	})
}

// deadline lets an account's next deadline pass, if it has one.
func (g *generator) deadline(id domain.AccountID) bool {
	a := g.Folds[id]
	if a == nil {
		return false
	}
	d, ok := g.Judge.Due(a)
	if !ok || d.At > g.now+int64(30*time.Minute) {
		return false
	}
	g.now = max(g.now, d.At)
	t := d.Trigger
	t.Account, t.At, t.HasAt, t.Expect = id, g.now, true, domain.NoExpect
	g.judge(&t)
	return true
}

// flap loses an account and brings it back some times within some minutes.
func (g *generator) flap(id domain.AccountID) {
	a := g.Folds[id]
	if a == nil || a.Machine != "whatsapp@2" {
		return
	}
	for range 6 {
		for _, name := range []string{"connection_ready", "connection_lost"} {
			g.now += int64(10*time.Second) + g.rng.Int64N(int64(20*time.Second))
			g.judge(&domain.Trigger{
				Account: id, Name: name, At: g.now, HasAt: true, Expect: domain.NoExpect, Source: a.Source, By: domain.ByRemote,
				Epoch: g.now / int64(time.Second),
			})
		}
	}
}

// ours is what Muster itself says of an account whose worker is silent, or back.
func (g *generator) ours(id domain.AccountID) {
	if g.Folds[id] == nil {
		return
	}
	g.judge(&domain.Trigger{
		Account: id, Name: pick(g.rng, []string{"vouch_lost", "vouch_restored", "recover"}), At: g.now, HasAt: true,
		Expect: domain.NoExpect, Source: domain.SourceMuster, By: domain.ByUs,
	})
}

var (
	sources = []string{"waha-1", "waha-2", "evo-1", "", "cloud"}
	codes   = []string{"", "", "401", "515", "440"}
	pools   = []string{"eu", "us", "ap=x"}
)

// trigger makes a trigger for an account, mostly one that its state allows.
func (g *generator) trigger(id domain.AccountID) domain.Trigger {
	t := domain.Trigger{
		Account: id, At: g.now, HasAt: true, Expect: domain.NoExpect,
		Source: pick(g.rng, sources), Reason: domain.Reason{Code: pick(g.rng, codes)}, By: domain.ByRemote,
	}
	if g.rng.IntN(10) == 0 {
		t.At -= int64(g.rng.ExpFloat64() * float64(2*time.Minute)) // it comes late
	}
	if g.rng.IntN(4) == 0 {
		t.ID = fmt.Sprint("id-", g.rng.IntN(10_000))
	}
	m := g.machineOf(&t)
	if g.rng.IntN(20) == 0 {
		g.setting(&t)
		return t
	}
	if g.talk > 0 && g.rng.IntN(100) < g.talk {
		g.speak(&t)
		return t
	}
	t.Name = pick(g.rng, m.Definition().Triggers)
	if g.rng.IntN(4) != 0 {
		t.Name = g.legal(m, g.state(id, m))
	}
	if t.Name == "start" || t.Name == "stop" {
		t.By = pick(g.rng, []domain.Initiator{domain.ByUser, domain.ByUser, domain.ByRemote})
	}
	if g.rng.IntN(3) == 0 {
		t.Epoch, t.Seq = g.now/int64(time.Hour), int64(len(g.Items))
	}
	g.data(&t)
	return t
}

// machineOf is the account's machine; a new account is given one.
func (g *generator) machineOf(t *domain.Trigger) *machine.Machine {
	reg := g.Judge.Machines()
	if a := g.Folds[t.Account]; a != nil {
		m, _ := reg.Get(a.Machine)
		return m
	}
	session := slices.DeleteFunc(reg.List(), func(m *machine.Machine) bool { return m.Family() != machine.FamilySession })
	m := pick(g.rng, session)
	t.Machine = m.Name()
	t.Mode = pick(g.rng, []string{"", domain.ModeObserve, domain.ModeSupervise})
	if g.rng.IntN(3) > 0 {
		t.Labels = map[string]string{"pool": pick(g.rng, pools)}
	}
	return m
}

func (g *generator) state(id domain.AccountID, m *machine.Machine) string {
	if a := g.Folds[id]; a != nil {
		return a.State
	}
	return m.Initial()
}

// legal returns a trigger that the table allows in a state.
func (g *generator) legal(m *machine.Machine, state string) string {
	var names []string
	for _, tr := range m.Transitions() {
		if tr.From == state {
			names = append(names, tr.Trigger)
		}
	}
	return pick(g.rng, names)
}

// setting makes t one about the account itself, or its messages.
func (g *generator) setting(t *domain.Trigger) {
	switch t.By = domain.ByUser; g.rng.IntN(6) {
	case 0:
		t.Name, t.Data = "forget", nil
	case 1:
		t.Name, t.Data = "set_mode", domain.Data{"mode": pick(g.rng, []string{domain.ModeObserve, domain.ModeSupervise})}
	case 2:
		t.Name, t.Data = "set_labels", domain.Data{"labels": map[string]any{}}
	case 3:
		t.By, t.Key = domain.ByRemote, fmt.Sprint("m-", g.rng.IntN(5))
		t.Name = pick(g.rng, []string{"message_pending", "message_sent", "message_replied", "message_failed"})
	case 4:
		t.By, t.Key = domain.ByRemote, fmt.Sprint("c-", g.rng.IntN(3))
		t.Name, t.Data = "customer_message", domain.Data{"message": fmt.Sprint("q-", g.rng.IntN(9))}
	default:
		t.Name, t.Data = "set_labels", domain.Data{"labels": map[string]any{"pool": pick(g.rng, pools), "tier": "gold", "none": nil}}
	}
}

// speak makes t one about a message or a conversation of the account.
func (g *generator) speak(t *domain.Trigger) {
	if g.rng.IntN(2) == 0 {
		t.Key = fmt.Sprint("m-", g.rng.IntN(60))
		t.Name = pick(g.rng, []string{
			"message_pending", "message_pending", "message_sent", "message_sent", "message_delivered", "message_read", "message_replied", "message_failed",
		})
		if g.rng.IntN(4) == 0 {
			t.Data = domain.Data{"reply_within": int64(g.rng.IntN(3) * 600)}
		}
		return
	}
	t.Key = fmt.Sprint("c-", g.rng.IntN(4))
	t.By = pick(g.rng, []domain.Initiator{domain.ByRemote, domain.ByUser})
	switch t.Name = pick(g.rng, []string{
		"customer_message", "customer_message", "customer_message", "claim", "claim", "take_over", "human_replied", "hand_back", "end",
	}); t.Name {
	case "customer_message":
		t.Data = domain.Data{"message": fmt.Sprint("q-", g.rng.IntN(40))}
	case "claim":
		t.Data = domain.Data{
			"message": fmt.Sprint("q-", g.rng.IntN(40)), "side": pick(g.rng, []string{"bot", "bot", "human"}), "handler": fmt.Sprint("h-", g.rng.IntN(3)),
		}
	}
}

// data gives t what its trigger carries.
func (g *generator) data(t *domain.Trigger) {
	until := time.Unix(0, g.now).Add(time.Duration(g.rng.IntN(600)) * time.Second).UTC().Format(time.RFC3339)
	switch t.Name {
	case "rate_limited", "banned":
		if g.rng.IntN(2) == 0 {
			t.Data = domain.Data{"until": until}
		}
	case "restricted", "restriction_lifted":
		t.Data = domain.Data{"scope": pick(g.rng, []string{"", "new_chats"}), "until": until}
	case "login_succeeded", "reconnected":
		t.Data = domain.Data{"sid_until": later(g.now, 2*time.Hour), "tgt_until": later(g.now, 6*time.Hour)}
	case "sync_completed", "sync_advanced":
		t.Data = domain.Data{"next_seq": int64(g.rng.IntN(50)), "full": g.rng.IntN(4) == 0}
	case "user_action_needed":
		t.Data = domain.Data{"action": pick(g.rng, []string{"", "open_phone"})}
	case "adopt":
		t.Data = domain.Data{"state": pick(g.rng, []string{"RUNNING", "DISCONNECTED", "LOGGED_OUT"})}
	}
}

// later is a time after another, as text.
func later(now int64, d time.Duration) string { return domain.FormatTime(now + int64(d)) }

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }
