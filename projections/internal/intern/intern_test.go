package intern

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/musterhq/muster/projections/internal/wire"
)

func TestTable(t *testing.T) {
	tab := New()
	for i, s := range []string{"", "RUNNING", "IDLE", "RUNNING"} {
		if got, want := tab.ID(s), []uint32{0, 1, 2, 1}[i]; got != want {
			t.Errorf("%q has number %d, want %d", s, got, want)
		}
	}
	if tab.Name(2) != "IDLE" || tab.Len() != 3 {
		t.Errorf("number 2 is %q of %d", tab.Name(2), tab.Len())
	}
	if _, ok := tab.Find("nobody"); ok {
		t.Error("found a text that was never numbered")
	}
}

func TestTableKeepsCopies(t *testing.T) {
	b := []byte("waha-1")
	tab := New()
	id := tab.ID(string(b))
	copy(b, "######")
	if tab.Name(id) != "waha-1" {
		t.Error("the table keeps what it was given")
	}
}

func TestIDWithin(t *testing.T) {
	tab := New()
	for i := range 100 {
		tab.IDWithin(fmt.Sprint("code-", i), 10, "other")
	}
	if tab.Len() != 11 {
		t.Errorf("%d texts are kept, want 11", tab.Len())
	}
	if tab.Name(tab.IDWithin("code-99", 10, "other")) != "other" || tab.Name(tab.IDWithin("code-3", 10, "other")) != "code-3" {
		t.Error("known texts keep their number, new ones have that of other")
	}
}

func TestLabels(t *testing.T) {
	l := NewLabels()
	sets := []map[string]string{
		nil,
		{"pool": "eu"},
		{"pool": "eu", "tier": "gold"},
		{"pool": "e", "u": ""},
		{"poole": "u"},
		{"pool": "eu\x04tier"},
	}
	for i, set := range sets {
		if got := l.ID(set); got != uint32(i) {
			t.Errorf("set %d has number %d", i, got)
		}
	}
	if l.ID(map[string]string{"tier": "gold", "pool": "eu"}) != 2 || l.ID(map[string]string{}) != 0 {
		t.Error("equal sets have different numbers")
	}
	if got := l.Set(2).Pairs; !reflect.DeepEqual(got, []string{"pool=eu", "tier=gold"}) {
		t.Errorf("pairs: %v", got)
	}
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	l.Save(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	loaded, r := NewLabels(), wire.NewReader(&b)
	loaded.Load(r)
	if r.Err() != nil || loaded.Len() != len(sets) {
		t.Fatalf("loaded %d sets: %v", loaded.Len(), r.Err())
	}
	for i, set := range sets[1:] {
		if got := loaded.Set(uint32(i + 1)).Map; !reflect.DeepEqual(got, set) {
			t.Errorf("set %d: %v, want %v", i+1, got, set)
		}
	}
}
