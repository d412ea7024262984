package domain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// probe is a value with a deadline and a mark.
type probe struct{ at, mark int64 }

func (p probe) deadline() (int64, int)       { return p.at, 1 }
func (p probe) marked() (int64, bool)        { return p.mark, p.mark != 0 }
func (p probe) kind() uint16                 { return 1 << (p.mark % 5) }
func (p probe) appendCanonical(w *canonical) { w.number(p.at, p.mark) }

func readProbe(r *canonicalReader) probe { return probe{r.number(), r.number()} }

// The tree does what a plain map does, finds the earliest and the oldest, and
// leaves older versions of itself alone.
func TestTreeAgainstAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tr tree[probe]
	model := map[string]probe{}
	type old struct {
		tree  tree[probe]
		model map[string]probe
	}
	var kept []old
	for i := range 6000 {
		key := fmt.Sprintf("m%d", r.IntN(300))
		if r.IntN(3) == 0 {
			tr = tr.remove(key)
			delete(model, key)
		} else {
			p := probe{at: never}
			if r.IntN(2) == 0 {
				p.at = r.Int64N(50)
			}
			if r.IntN(2) == 0 {
				p.mark = 1 + r.Int64N(50)
			}
			tr = tr.put(key, p)
			model[key] = p
		}
		if i%100 == 0 {
			kept = append(kept, old{tr, maps.Clone(model)})
		}
		if i%20 == 0 {
			checkTree(t, tr, model)
		}
	}
	for _, o := range kept {
		checkTree(t, o.tree, o.model)
	}
}

func checkTree(t *testing.T, tr tree[probe], model map[string]probe) {
	t.Helper()
	var keys []string
	tr.each(func(key string, p probe) bool {
		if model[key] != p {
			t.Fatalf("%s: %v, want %v", key, p, model[key])
		}
		keys = append(keys, key)
		return true
	})
	want := slices.Sorted(maps.Keys(model))
	if !slices.Equal(keys, want) || tr.len() != len(want) {
		t.Fatalf("%d keys in this order: %v, want %v", tr.len(), keys, want)
	}
	earliest, oldest, marks := "", "", 0
	for _, key := range want {
		p := model[key]
		if p.at != never && (earliest == "" || p.at < model[earliest].at) {
			earliest = key
		}
		if p.mark != 0 {
			marks++
			if oldest == "" || p.mark < model[oldest].mark {
				oldest = key
			}
		}
	}
	if n := tr.root; n != nil {
		if got := keyOf(n.earliest); got != earliest {
			t.Fatalf("earliest %q, want %q", got, earliest)
		}
		if got := keyOf(n.oldest); got != oldest || int(n.marks) != marks {
			t.Fatalf("oldest %q of %d, want %q of %d", got, n.marks, oldest, marks)
		}
	}
	for _, kinds := range []uint16{1, 1 << 3, 1<<2 | 1<<4} {
		for _, after := range []string{"", "m15", "m299", "z"} {
			checkBehind(t, tr, model, after, kinds)
		}
	}
	w := canonical{}
	tr.appendCanonical(&w)
	r := canonicalReader{b: w.b}
	back := readTree(&r, readProbe)
	w2 := canonical{}
	back.appendCanonical(&w2)
	if r.bad || len(r.b) != 0 || string(w.b) != string(w2.b) || !same(tr.root, back.root) {
		t.Fatal("written and read back it is another tree")
	}
}

// checkBehind: what is found behind a key by its kind is what a look at all of
// them finds, whether the walk is broken off or not.
func checkBehind(t *testing.T, tr tree[probe], model map[string]probe, after string, kinds uint16) {
	t.Helper()
	var want []string
	for _, key := range slices.Sorted(maps.Keys(model)) {
		if p := model[key]; key > after && p.kind()&kinds != 0 {
			want = append(want, key)
		}
	}
	for _, most := range []int{1 << 20, 2} {
		var got []string
		tr.behind(after, kinds, func(key string, p probe) bool {
			if p != model[key] {
				t.Fatalf("%s: %v, want %v", key, p, model[key])
			}
			got = append(got, key)
			return len(got) < most
		})
		if first := want[:min(most, len(want))]; !slices.Equal(got, first) {
			t.Fatalf("behind %q, kinds %b: %v, want %v", after, kinds, got, first)
		}
	}
}

func keyOf(n *node[probe]) string {
	if n == nil {
		return ""
	}
	return n.key
}

func same(a, b *node[probe]) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.key == b.key && a.count == b.count && a.marks == b.marks && a.kinds == b.kinds && keyOf(a.earliest) == keyOf(b.earliest) && keyOf(a.oldest) == keyOf(b.oldest) &&
		same(a.left, b.left) && same(a.right, b.right)
}

// Ten thousand closed messages are kept, the earliest closed goes first.
func TestTooManyClosedMessages(t *testing.T) {
	var a *Account
	event := func(version int, key string, at int64) *Event {
		return &Event{Version: uint64(version), Account: "a", Kind: KindMessage, Key: key, Trigger: "message_failed", Outcome: Applied, To: MessageFailed, At: at, Recorded: 1000, Initial: "IDLE"}
	}
	for i := range maxClosed + 1 {
		a = Evolve(a, event(i+1, fmt.Sprintf("m%05d", i), int64(1000-i%7)))
	}
	if n := a.Talk.messages.len(); n != maxClosed {
		t.Errorf("%d messages are kept, want %d", n, maxClosed)
	}
	if _, ok := a.message("m00006"); ok { // the first of those with the smallest time
		t.Error("m00006 is kept, it was closed first")
	}
	if _, ok := a.message("m00013"); !ok {
		t.Error("m00013 is gone, want m00006 only")
	}
}

// Whatever the bytes are, reading an account neither panics nor accepts what it
// would write otherwise.
func FuzzUnmarshalAccount(f *testing.F) {
	a := Evolve(nil, &Event{Version: 1, ID: "x", Account: "a", Kind: KindSession, Trigger: "start", Outcome: Applied, From: "IDLE", To: "CONNECTING", Initial: "IDLE",
		Machine: "whatsapp@2", Mode: "observe", At: 5, Source: "s", Labels: map[string]string{"p": "q"}, Set: []Condition{{Name: "stuck", Since: 5, Until: 9}}, Effects: EffectFlap | EffectAuthority})
	a = Evolve(a, &Event{Version: 2, Account: "a", Kind: KindMessage, Key: "m", Trigger: "message_sent", Outcome: Applied, To: "SENT", At: 6})
	a = Evolve(a, &Event{Version: 3, Account: "a", Kind: KindConversation, Key: "c", Trigger: "customer_message", Outcome: Applied, To: "BOT", At: 7, Data: Data{"message": "i"}, Effects: EffectOpensTurn})
	b, _ := a.MarshalBinary()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Account
		if a.UnmarshalBinary(b) != nil {
			return
		}
		again, _ := a.MarshalBinary()
		var c Account
		if err := c.UnmarshalBinary(again); err != nil {
			t.Fatalf("written again it cannot be read: %v", err)
		}
		third, _ := c.MarshalBinary()
		if string(third) != string(again) {
			t.Fatal("written twice it is different")
		}
	})
}
