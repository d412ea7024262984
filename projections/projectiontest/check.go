package projectiontest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/musterhq/muster/projections"
)

// Subject is the view that is held to the rules.
type Subject struct {
	// New returns an empty view for a history whose accounts are in the roster.
	New func(h *History, roster *projections.Roster) projections.View
	// Answers returns all that the view can tell at the history's end, as
	// values that JSON can hold.
	Answers func(h *History, v projections.View) any
	// Want works the same out from the history's events and folds alone, as plainly
	// as can be, in the same form as Answers. It is the oracle of the view.
	Want func(h *History) any
}

// Check runs the view through random histories.
func (s Subject) Check(t *testing.T) {
	t.Run("live", func(t *testing.T) { s.eachSeed(t, s.checkRepeats) })
	t.Run("interleaved", func(t *testing.T) { s.eachSeed(t, s.checkInterleavings) })
	t.Run("asked while it is fed", func(t *testing.T) { s.eachSeed(t, s.checkConcurrent) })
	t.Run("saved and loaded", func(t *testing.T) { s.eachSeed(t, s.checkSaved) })
	t.Run("every split", s.checkEverySplit)
	t.Run("damaged save", s.checkDamagedSave)
	t.Run("with what a plain reading finds", s.checkOracle)
	t.Run("rebuilt while events come in", s.checkRebuilt)
	t.Run("live over a server", s.checkLive)
	t.Run("keeps nothing of an event", s.checkKeepsNothing)
}

func (s Subject) eachSeed(t *testing.T, check func(*testing.T, *History, *rand.Rand)) {
	for seed := range uint64(2) {
		check(t, Generate(seed, Config{Talk: 30 * int(seed), Lost: 10 * int(seed)}), rand.New(rand.NewPCG(seed, 1)))
	}
}

// answers is what a view tells, as text.
func (s Subject) answers(t *testing.T, h *History, v projections.View) string {
	t.Helper()
	return text(t, s.Answers(h, v))
}

func text(t *testing.T, answers any) string {
	t.Helper()
	b, err := json.MarshalIndent(answers, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// live feeds a new view one event after the other.
func (s Subject) live(h *History) projections.View {
	v := s.New(h, h.Roster)
	feed(v, h.Items)
	return v
}

func feed(v projections.View, items []Item) {
	for _, i := range items {
		give(v, i)
	}
}

// give hands one event to a view, as a Runner does.
func give(v projections.View, i Item) {
	if d, ok := v.(projections.DamageObserver); ok && i.Damaged {
		d.Damaged(i.At)
	}
	v.Apply(i.At, i.Event)
}

// same fails the test when two answers differ, and shows the first place.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := bytes.Split([]byte(got), []byte("\n")), bytes.Split([]byte(want), []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			from := max(0, i-6)
			t.Fatalf("%s: the answers differ at line %d:\ngot\n%s\nwant\n%s", what, i,
				bytes.Join(g[from:i+1], []byte("\n")), bytes.Join(w[from:i+1], []byte("\n")))
		}
	}
	t.Fatalf("%s: %d lines of answers, want %d", what, len(g), len(w))
}

// checkRepeats: an event applied twice changes nothing, nor does a history
// that begins again; Reset and the history again give the same.
func (s Subject) checkRepeats(t *testing.T, h *History, _ *rand.Rand) {
	v := s.live(h)
	want := s.answers(t, h, v)
	if empty := s.answers(t, h, s.New(h, h.Roster)); empty == want {
		t.Fatal("the history leaves no trace in the view's answers: the check would see nothing")
	}
	feed(v, h.Items)
	same(t, "the history applied twice", s.answers(t, h, v), want)

	twice := s.New(h, h.Roster)
	for _, i := range h.Items {
		give(twice, i)
		give(twice, i)
	}
	same(t, "each event applied twice", s.answers(t, h, twice), want)

	v.Reset()
	feed(v, h.Items)
	same(t, "rebuilt after Reset", s.answers(t, h, v), want)
}

// checkInterleavings: partitions have no order between them.
func (s Subject) checkInterleavings(t *testing.T, h *History, rng *rand.Rand) {
	want := s.answers(t, h, s.live(h))
	for range 3 {
		v := s.New(h, h.Roster)
		feed(v, shuffle(h, rng))
		same(t, "another interleaving", s.answers(t, h, v), want)
	}
	v := s.New(h, h.Roster)
	for p := h.Partitions - 1; p >= 0; p-- {
		feed(v, of(h, p))
	}
	same(t, "one partition after the other", s.answers(t, h, v), want)
}

// of returns the items of one partition.
func of(h *History, partition int) []Item {
	return slices.DeleteFunc(slices.Clone(h.Items), func(i Item) bool { return i.At.Partition != partition })
}

// shuffle interleaves the partitions at random, each in its order.
func shuffle(h *History, rng *rand.Rand) []Item {
	parts := make([][]Item, h.Partitions)
	for p := range parts {
		parts[p] = of(h, p)
	}
	items := make([]Item, 0, len(h.Items))
	for len(items) < len(h.Items) {
		if p := rng.IntN(len(parts)); len(parts[p]) > 0 {
			items = append(items, parts[p][0])
			parts[p] = parts[p][1:]
		}
	}
	return items
}

// checkConcurrent: partitions are fed side by side while the view is asked.
func (s Subject) checkConcurrent(t *testing.T, h *History, _ *rand.Rand) {
	v := s.New(h, h.Roster)
	fed := make(chan struct{})
	var feeders, asker sync.WaitGroup
	for p := range h.Partitions {
		feeders.Go(func() { feed(v, of(h, p)) })
	}
	asker.Go(func() {
		for {
			select {
			case <-fed:
				return
			default:
				s.Answers(h, v)
			}
		}
	})
	feeders.Wait()
	close(fed)
	asker.Wait()
	same(t, "fed side by side", s.answers(t, h, v), s.answers(t, h, s.live(h)))
}

// save returns the saved state of each partition.
func save(t *testing.T, h *History, v projections.View) [][]byte {
	t.Helper()
	saved := make([][]byte, h.Partitions)
	for p := range saved {
		var b bytes.Buffer
		if err := v.Save(p, &b); err != nil {
			t.Fatalf("save partition %d: %v", p, err)
		}
		saved[p] = b.Bytes()
	}
	return saved
}

func load(t *testing.T, v projections.View, saved [][]byte) {
	t.Helper()
	for p, b := range saved {
		r := bytes.NewReader(b)
		if err := v.Load(p, r); err != nil {
			t.Fatalf("load partition %d: %v", p, err)
		}
		if r.Len() != 0 {
			t.Fatalf("load partition %d: %d bytes were not read", p, r.Len())
		}
	}
}

// checkSaved: a state that was saved and loaded goes on as if nothing had
// been, also when the events before the save come again; and saves the same.
func (s Subject) checkSaved(t *testing.T, h *History, rng *rand.Rand) {
	want := s.answers(t, h, s.live(h))
	for range 4 {
		cut := rng.IntN(len(h.Items) + 1)
		first := s.New(h, h.Roster)
		feed(first, h.Items[:cut])
		saved := save(t, h, first)
		second := s.New(h, h.Roster)
		load(t, second, saved)
		same(t, "a loaded state", s.answers(t, h, second), s.answers(t, h, first))
		for p, b := range save(t, h, second) {
			if !bytes.Equal(b, saved[p]) {
				t.Fatalf("partition %d: a loaded state saves other bytes than it was loaded from", p)
			}
		}
		feed(second, h.Items[max(0, cut-30):])
		same(t, "a loaded state that went on", s.answers(t, h, second), want)
	}
}

// checkEverySplit cuts a short history at every event.
func (s Subject) checkEverySplit(t *testing.T) {
	h := Generate(99, Config{Accounts: 5, Events: 120, Talk: 30, Lost: 20})
	want := s.answers(t, h, s.live(h))
	first := s.New(h, h.Roster)
	for cut := range len(h.Items) + 1 {
		second := s.New(h, h.Roster)
		load(t, second, save(t, h, first))
		s.asOracle(t, "a state loaded in the middle", h.Until(cut), second)
		feed(second, h.Items[cut:])
		same(t, "split", s.answers(t, h, second), want)
		if cut < len(h.Items) {
			feed(first, h.Items[cut:cut+1])
		}
	}
}

// checkDamagedSave: bytes that were cut off give an error, altered ones an
// error or another state, and neither a panic.
func (s Subject) checkDamagedSave(t *testing.T) {
	h := Generate(5, Config{Partitions: 1, Accounts: 8, Events: 200})
	saved := save(t, h, s.live(h))[0]
	for n := 0; n < len(saved); n += 1 + n/100 {
		if err := s.New(h, h.Roster).Load(0, bytes.NewReader(saved[:n])); err == nil {
			t.Fatalf("a state cut off at byte %d of %d was loaded", n, len(saved))
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 150 {
		b := slices.Clone(saved)
		b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
		if v := s.New(h, h.Roster); v.Load(0, bytes.NewReader(b)) == nil {
			feed(v, h.Items)
			s.Answers(h, v)
		}
	}
}
