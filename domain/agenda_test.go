package domain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
)

// The agenda gives deadlines out in the order of a plain sorted list.
func TestAgendaAgainstAList(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	g := domain.NewAgenda()
	model := map[domain.AccountID]domain.Deadline{}
	for range 5000 {
		id := domain.AccountID(fmt.Sprintf("a%d", r.IntN(60)))
		switch r.IntN(4) {
		case 0:
			g.Remove(id)
			delete(model, id)
		case 1:
			now := r.Int64N(20)
			got, ok := g.PopDue(now)
			want, any := first(model)
			any = any && model[want].At <= now
			if ok != any || ok && got != want {
				t.Fatalf("at %d: %q %v, want %q %v", now, got, ok, want, any)
			}
			if ok {
				delete(model, got)
			}
		default:
			d := domain.Deadline{At: r.Int64N(20), Rank: r.IntN(3), Sub: fmt.Sprint(r.IntN(3))}
			g.Set(id, d)
			model[id] = d
		}
		at, ok := g.Next()
		want, any := first(model)
		if ok != any || ok && at != model[want].At || g.Len() != len(model) {
			t.Fatalf("next %d %v of %d, want %d %v of %d", at, ok, g.Len(), model[want].At, any, len(model))
		}
	}
}

func first(model map[domain.AccountID]domain.Deadline) (domain.AccountID, bool) {
	var ids []domain.AccountID
	for id := range model {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "", false
	}
	return slices.MinFunc(ids, func(a, b domain.AccountID) int {
		x, y := model[a], model[b]
		switch {
		case x.At != y.At:
			return int(x.At - y.At)
		case x.Rank != y.Rank:
			return x.Rank - y.Rank
		default:
			return strings.Compare(string(a), string(b))
		}
	}), true
}
