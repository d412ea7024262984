package offline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
)

// Ruling is what a trigger came to: its outcome and where it led.
type Ruling struct {
	Outcome string `json:"outcome"`
	From    string `json:"from"`
	To      string `json:"to"`
	Reason  string `json:"reason,omitempty"`
}

// Difference is one recorded trigger that is judged otherwise.
type Difference struct {
	Account   domain.AccountID `json:"account"`
	Version   uint64           `json:"version"` // of the recorded event
	Partition int              `json:"partition"`
	Seq       uint64           `json:"seq"`
	Was       Ruling           `json:"was"`
	Would     Ruling           `json:"would"`
	Line      string           `json:"line"` // the trigger as a trace line
}

// EdgeDifference counts the differences that are alike.
type EdgeDifference struct {
	Trigger string `json:"trigger"`
	Was     Ruling `json:"was"`
	Would   Ruling `json:"would"`
	Count   int    `json:"count"`
}

// FinalDifference counts the accounts that end in another state.
type FinalDifference struct {
	Was      string             `json:"was"`
	Would    string             `json:"would"`
	Accounts int                `json:"accounts"`
	Sample   []domain.AccountID `json:"sample"` // the first by id
}

// Rejudged is what another table makes of a history.
type Rejudged struct {
	Accounts  int               `json:"accounts"`
	Triggers  int               `json:"triggers"` // recorded ones of publishers
	Differ    int               `json:"differ"`   // of them, judged otherwise
	Edges     []EdgeDifference  `json:"edges"`
	Examples  []Difference      `json:"examples"` // the first of each kind
	Finals    []FinalDifference `json:"finals"`
	FinalSame int               `json:"final_same"` // accounts that end in the same state
	// Own are Muster's own triggers (deadlines): recorded, and made under the
	// other table.
	OwnWas   int    `json:"own_was"`
	OwnWould int    `json:"own_would"`
	Digest   string `json:"digest"` // of the state that the other table leads to
}

// examplesOfEach is how many examples of one kind of difference are kept, and
// examplesInAll of all kinds together.
const (
	examplesOfEach = 3
	examplesInAll  = 200
	sampleFinals   = 5
)

// Rejudge judges every recorded trigger of an archive again, on the clock of
// the recorded times: deadlines that are due strictly before a trigger fire
// before it, those due when the last event was recorded at the end. Muster's
// own recorded triggers are left out, since the clock makes them again; what
// was not stored (the beats whose absence they tell) is taken as recorded.
// each, when it is not nil, gets every difference.
func Rejudge(ctx context.Context, a *archive.Archive, table *Table, o Options, each func(Difference)) (*Rejudged, error) {
	r := &rejudging{table: table, o: o, each: each, accounts: map[domain.AccountID]*twin{}, edges: map[edgeKey]*EdgeDifference{}}
	for p := range a.Partitions() {
		if err := r.partition(ctx, a, p); err != nil {
			return nil, fmt.Errorf("rejudge partition %d: %w", p, err)
		}
	}
	return r.result(), nil
}

// twin is an account as it was, and as it would have been.
type twin struct {
	was   string
	would *domain.Account
}

type edgeKey struct {
	trigger    string
	was, would Ruling
}

type rejudging struct {
	table    *Table
	o        Options
	each     func(Difference)
	accounts map[domain.AccountID]*twin
	edges    map[edgeKey]*EdgeDifference
	out      Rejudged
	last     int64
}

func (r *rejudging) partition(ctx context.Context, a *archive.Archive, partition int) error {
	until, bounded := r.o.UntilSeq[partition]
	records := a.Read(ctx, partition, 0)
	if r.o.Account != "" {
		records = a.Account(ctx, storedAs(r.o.Keys, r.o.Account), 0)
	}
	for rec, err := range unsealed(r.o.Keys, records) {
		if err != nil {
			return err
		}
		if rec.Partition != partition || bounded && rec.Seq > until {
			break
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			return fmt.Errorf("sequence %d, account %q: %w", rec.Seq, rec.Account, err)
		}
		if r.o.UntilTime != 0 && e.Recorded > r.o.UntilTime {
			continue
		}
		r.event(partition, rec.Seq, &e)
	}
	return nil
}

func (r *rejudging) event(partition int, seq uint64, e *domain.Event) {
	t := r.accounts[e.Account]
	if t == nil {
		t = &twin{}
		r.accounts[e.Account] = t
	}
	r.last = max(r.last, e.Recorded)
	if e.Kind == domain.KindSession || e.Kind == domain.KindMark || e.Kind == domain.KindAccount {
		t.was = e.To
	}
	if e.Own() {
		r.out.OwnWas++
		return
	}
	r.out.Triggers++
	r.fire(t, e.Recorded-1)
	said := r.table.said(e)
	d := r.table.judge.Decide(t.would, &said, e.Recorded)
	if d.Event != nil {
		t.would = domain.Evolve(t.would, d.Event)
	}
	was := Ruling{Outcome: e.Outcome.String(), From: e.From, To: e.To, Reason: e.Verdict}
	would := Ruling{Outcome: d.Verdict.Outcome.String(), From: d.Verdict.From, To: d.Verdict.To}
	if d.Event != nil {
		would.Reason = d.Event.Verdict
	}
	if was.Outcome != would.Outcome || was.From != would.From || was.To != would.To {
		r.differ(Difference{Account: e.Account, Version: e.Version, Partition: partition, Seq: seq, Was: was, Would: would}, &said)
	}
}

// fire judges what is due until a time.
func (r *rejudging) fire(t *twin, until int64) {
	for t.would != nil {
		d, ok := r.table.judge.Due(t.would)
		if !ok || d.At > until {
			return
		}
		own := r.table.judge.Decide(t.would, &d.Trigger, d.At)
		if own.Event == nil {
			return
		}
		r.out.OwnWould++
		t.would = domain.Evolve(t.would, own.Event)
	}
}

func (r *rejudging) differ(d Difference, said *domain.Trigger) {
	r.out.Differ++
	k := edgeKey{said.Name, d.Was, d.Would}
	n := r.edges[k]
	if n == nil {
		n = &EdgeDifference{Trigger: said.Name, Was: d.Was, Would: d.Would}
		r.edges[k] = n
	}
	n.Count++
	keep := n.Count <= examplesOfEach && len(r.out.Examples) < examplesInAll
	if !keep && r.each == nil {
		return
	}
	d.Line = string(said.AppendJSON(nil))
	if keep {
		r.out.Examples = append(r.out.Examples, d)
	}
	if r.each != nil {
		r.each(d)
	}
}

func (r *rejudging) result() *Rejudged {
	finals := map[[2]string]*FinalDifference{}
	var folded []*domain.Account
	for id, t := range r.accounts {
		r.fire(t, r.last)
		would := ""
		if t.would != nil {
			would = t.would.State
			folded = append(folded, t.would)
		}
		if would == t.was {
			r.out.FinalSame++
			continue
		}
		f := finals[[2]string{t.was, would}]
		if f == nil {
			f = &FinalDifference{Was: t.was, Would: would}
			finals[[2]string{t.was, would}] = f
		}
		f.Accounts++
		f.Sample = append(f.Sample, id)
	}
	out := &r.out
	out.Accounts, out.Digest = len(r.accounts), domain.Digest(folded)
	out.Edges, out.Finals = []EdgeDifference{}, []FinalDifference{}
	for _, e := range r.edges {
		out.Edges = append(out.Edges, *e)
	}
	slices.SortFunc(out.Edges, func(a, b EdgeDifference) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, f := range finals {
		slices.Sort(f.Sample)
		f.Sample = f.Sample[:min(len(f.Sample), sampleFinals)]
		out.Finals = append(out.Finals, *f)
	}
	slices.SortFunc(out.Finals, func(a, b FinalDifference) int {
		if a.Accounts != b.Accounts {
			return b.Accounts - a.Accounts
		}
		return strings.Compare(a.Was+" "+a.Would, b.Was+" "+b.Would)
	})
	if out.Examples == nil {
		out.Examples = []Difference{}
	}
	return out
}

// Table is the table under which a history is judged again.
type Table struct {
	judge   *domain.Judge
	session string // the machine that replaces those of accounts; "" = none does
	base    string // … of accounts with a machine of this name, in any version; "" = of all
}

// NewTable makes a table of the machines that opts name, at most one for each
// family. The session machine replaces that of the accounts whose machine has
// the same name in another version, and, when no machine of that name is known
// beside it, that of all accounts.
func NewTable(opts trace.Options) (*Table, error) {
	judge, err := trace.NewJudge(opts)
	if err != nil {
		return nil, err
	}
	t := &Table{judge: judge.WithoutBeats()}
	for _, name := range opts.Defaults {
		m, ok := opts.Machines.Get(name)
		if !ok || m.Family() != machine.FamilySession {
			continue
		}
		t.session = m.Name()
		base, _, _ := strings.Cut(t.session, "@")
		for _, other := range opts.Machines.List() {
			if b, _, _ := strings.Cut(other.Name(), "@"); b == base && other.Name() != t.session {
				t.base = base
			}
		}
	}
	return t, nil
}

// said is the trigger of an event as this table is to judge it.
func (t *Table) said(e *domain.Event) domain.Trigger {
	said := e.Said()
	if base, _, _ := strings.Cut(e.Machine, "@"); e.Version == 1 && t.session != "" && (t.base == "" || t.base == base) {
		said.Machine = t.session
	}
	return said
}
