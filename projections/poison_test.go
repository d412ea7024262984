package projections_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

// picky is a recorder that cannot take some events, and can be renewed.
type picky struct {
	*recorder
	partitions int
	refuses    func(projections.Place) bool
}

func newPicky(name string, partitions int, refuses func(projections.Place) bool) *picky {
	v := newRecorder(partitions)
	v.name = name
	return &picky{v, partitions, refuses}
}

func (v *picky) Apply(at projections.Place, e *domain.Event) {
	if v.refuses(at) {
		panic("no taste for this")
	}
	v.recorder.Apply(at, e)
}

func (v *picky) Renew() projections.View { return newPicky(v.name, v.partitions, v.refuses) }

func (v *picky) Take(partition int, from projections.View) {
	o := from.(*picky).recorder
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parts[partition] = o.parts[partition]
	v.damaged = o.damaged
}

func nothing(projections.Place) bool { return false }

// seventh refuses the seventh event of partition 1.
func seventh(at projections.Place) bool { return at.Partition == 1 && at.Seq == 7 }

// alarms collects alarms.
type alarms struct {
	mu   sync.Mutex
	list []projections.Alarm
}

func (a *alarms) add(alarm projections.Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, alarm)
}

func (a *alarms) all() []projections.Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// statusOf is the status of one view.
func statusOf(t *testing.T, r *running, name string) projections.ViewStatus {
	t.Helper()
	for _, v := range r.Status().Views {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("the status names no view %q", name)
	return projections.ViewStatus{}
}

// TestAPoisonEventHaltsThatViewOnly: the others hold everything, nobody who waits
// for a position waits for the halted one, and it is named.
func TestAPoisonEventHaltsThatViewOnly(t *testing.T) {
	log := memlog.New(2)
	newWriter(t, log).write(200)
	sick, parking := newPicky("sick", 2, seventh), newPicky("parking", 2, seventh)
	var got alarms
	r := start(t, log, func(c *projections.Config) {
		c.Views = []projections.View{sick, c.Views[0], parking}
		c.PoisonOf = map[string]projections.Poison{"parking": projections.Park}
		c.OnAlarm = got.add
	})
	r.reach(log)
	want := fold(t, log)
	if whole := r.view.state(); !slices.Equal(whole, want) {
		t.Errorf("the sound view holds %v, want %v", whole, want)
	}
	if s := sick.state(); s[0] != want[0] || s[1].seq != 6 || s[1].events != 6 {
		t.Errorf("the halted view holds %v, want all of partition 0 and six events of partition 1", s)
	}
	if s := parking.state(); s[0] != want[0] || s[1].seq != want[1].seq || s[1].events != want[1].events-1 {
		t.Errorf("the view that goes on holds %v, want all but one event", s)
	}
	halted, parked := statusOf(t, r, "sick"), statusOf(t, r, "parking")
	if halted.Sound() || !slices.Equal(halted.Halted, []int{1}) || halted.Parked != 0 || len(halted.Faults) != 1 {
		t.Errorf("the halted view's status: %+v", halted)
	}
	if parked.Sound() || len(parked.Halted) != 0 || parked.Parked != 1 || len(parked.Faults) != 1 {
		t.Errorf("the other's status: %+v", parked)
	}
	if f := parked.Faults[0]; f.Partition != 1 || f.Seq != 7 || f.Account == "" || !strings.Contains(f.Err, "no taste") {
		t.Errorf("the fault: %+v", f)
	}
	if sound := statusOf(t, r, "recorder"); !sound.Sound() {
		t.Errorf("the sound view's status: %+v", sound)
	}
	list := got.all()
	if len(list) != 2 || list[0].View != "sick" || list[1].View != "parking" || list[0].Kind != projections.Poisoned || len(list[0].Stack) == 0 {
		t.Fatalf("alarms: %v", list)
	}
	if text := list[0].String(); !strings.Contains(text, "partition 1, sequence 7: account ") || !strings.Contains(text, "the view sick: panic: no taste") {
		t.Errorf("the alarm reads %q", text)
	}
}

// TestAHaltedViewIsFoldedAnew: what a halted view held is not saved; the next
// start folds that view alone, and what was parked is remembered.
func TestAHaltedViewIsFoldedAnew(t *testing.T) {
	log, blobs := memlog.New(2), new(memlog.Blobs)
	w := newWriter(t, log)
	w.write(200)
	views := func(refuses func(projections.Place) bool) (sick, parking *picky, config func(*projections.Config)) {
		sick, parking = newPicky("sick", 2, refuses), newPicky("parking", 2, refuses)
		return sick, parking, func(c *projections.Config) {
			c.Blobs, c.Views = blobs, append(c.Views, sick, parking)
			c.PoisonOf = map[string]projections.Poison{"parking": projections.Park}
		}
	}
	_, _, with := views(seventh)
	first := start(t, log, with)
	first.reach(log)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	w.write(50)
	sick, parking, with := views(nothing) // a better build
	second := start(t, log, with)
	second.reach(log)
	want := fold(t, log)
	if got := sick.state(); !slices.Equal(got, want) {
		t.Errorf("the view that was halted holds %v, want %v", got, want)
	}
	if got := second.view.state(); !slices.Equal(got, want) || second.view.repeated > 0 {
		t.Errorf("the sound view holds %v, %d events came again; want %v, 0", got, second.view.repeated, want)
	}
	if parking.repeated > 0 || parking.state()[1].events != want[1].events-1 {
		t.Errorf("the view that went on holds %v, %d events came again", parking.state(), parking.repeated)
	}
	if s := second.Status(); s.Discarded != 0 || len(s.Alarms) != 0 {
		t.Errorf("status: %+v", s)
	}
	if s := statusOf(t, second, "parking"); s.Parked != 1 || len(s.Faults) != 1 || s.Faults[0].Seq != 7 || s.Faults[0].Partition != 1 {
		t.Errorf("what was parked is forgotten: %+v", s)
	}
	if s := statusOf(t, second, "sick"); !s.Sound() {
		t.Errorf("the view that was folded anew is still said to be sick: %+v", s)
	}
}

// TestOneViewMore: a view of which nothing was saved is folded alone.
func TestOneViewMore(t *testing.T) {
	log, blobs := memlog.New(2), new(memlog.Blobs)
	w := newWriter(t, log)
	w.write(100)
	w.versions["acct-3"] = 50
	w.write(100) // the history of one account has a gap
	first := start(t, log, func(c *projections.Config) { c.Blobs = blobs })
	first.reach(log)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	w.write(30)
	more := newPicky("more", 2, nothing)
	second := start(t, log, func(c *projections.Config) { c.Blobs, c.Views = blobs, append(c.Views, more) })
	second.reach(log)
	want := fold(t, log)
	if got := more.state(); !slices.Equal(got, want) {
		t.Errorf("the new view holds %v, want %v", got, want)
	}
	if got := second.view.state(); !slices.Equal(got, want) || second.view.repeated > 0 {
		t.Errorf("the old view holds %v, %d events came again; want %v, 0", got, second.view.repeated, want)
	}
	if len(more.damaged) != 1 || !slices.Equal(more.damaged, first.view.damaged) {
		t.Errorf("the new view knows of damage at %v, the old one of %v", more.damaged, first.view.damaged)
	}
	if s := second.Status(); s.Discarded != 1 || s.DiscardedBy != "more: nothing was saved of it" {
		t.Errorf("discarded %d, because %q", s.Discarded, s.DiscardedBy)
	}
}

// TestAViewThatCannotReadWhatItSaved: it is folded anew, the others are not.
func TestAViewThatCannotReadWhatItSaved(t *testing.T) {
	log, blobs := memlog.New(2), new(memlog.Blobs)
	newWriter(t, log).write(100)
	first := start(t, log, func(c *projections.Config) { c.Blobs, c.Views = blobs, append(c.Views, newPicky("greedy", 2, nothing)) })
	first.reach(log)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	greedy := &greedy{newPicky("greedy", 2, nothing)}
	second := start(t, log, func(c *projections.Config) { c.Blobs, c.Views = blobs, append(c.Views, greedy) })
	second.reach(log)
	want := fold(t, log)
	if got := greedy.state(); !slices.Equal(got, want) || !slices.Equal(second.view.state(), want) || second.view.repeated > 0 {
		t.Errorf("the view holds %v, want %v; %d events came to the other again", got, want, second.view.repeated)
	}
	if s := second.Status(); s.Discarded != 1 || !strings.Contains(s.DiscardedBy, "greedy: unexpected EOF") {
		t.Errorf("discarded %d, because %q", s.Discarded, s.DiscardedBy)
	}
}

// greedy wants to read more than it saved.
type greedy struct{ *picky }

func (v *greedy) Load(partition int, r io.Reader) error {
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		return err
	}
	return errors.New("unexpected EOF")
}

func TestPoisonIsConfigured(t *testing.T) {
	_, err := projections.New(projections.Config{
		History: memlog.New(1), Roster: projections.NewRoster(1), Views: []projections.View{newRecorder(1)},
		PoisonOf: map[string]projections.Poison{"recorded": projections.Park},
	})
	if err == nil || !strings.Contains(err.Error(), `there is no view "recorded"; there are recorder`) {
		t.Errorf("a rule for a view that does not exist: %v", err)
	}
	for text, want := range map[string]projections.Poison{"halt": projections.Halt, "park": projections.Park} {
		if got, err := projections.ParsePoison(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if _, err := projections.ParsePoison("ignore"); err == nil {
		t.Error("a rule that does not exist was read")
	}
}
