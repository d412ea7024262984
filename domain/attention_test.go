package domain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

// TestEveryKindOfAttentionIsExplained: whatever the judge can ask a human for
// has its sentence, and the table has no other.
func TestEveryKindOfAttentionIsExplained(t *testing.T) {
	asked := map[string]bool{domain.AttentionNobodyAnswering: true, domain.AttentionDamaged: true}
	for _, c := range machine.Conditions() {
		if c.Attention {
			asked[c.Name] = true
		}
	}
	for _, m := range lifecycle.Registry().List() {
		for _, s := range m.Definition().States {
			if s.Attention != "" {
				asked[s.Attention] = true
			}
		}
	}
	for _, k := range domain.AttentionKinds() {
		if !asked[k.Name] {
			t.Errorf("%s is explained, and nobody asks for it", k.Name)
		}
		delete(asked, k.Name)
		if k.About == "" || !strings.HasSuffix(k.Do, ".") {
			t.Errorf("%s: about %q, do %q; want a clause and a sentence", k.Name, k.About, k.Do)
		}
		if domain.AttentionNamed(k.Name) != k {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
	for name := range asked {
		t.Errorf("%s is asked for and not explained", name)
	}
}

func TestAttentionOrder(t *testing.T) {
	got := []string{"zz", "stuck", "nobody_answering", "aa", "scan_qr", "banned"}
	slices.SortStableFunc(got, func(a, b string) int { return domain.AttentionRank(a) - domain.AttentionRank(b) })
	if want := []string{"scan_qr", "banned", "stuck", "nobody_answering", "zz", "aa"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if k := domain.AttentionNamed("call_the_shop"); !strings.Contains(k.Do, "call_the_shop") || k.Name != "call_the_shop" {
		t.Errorf("a kind of a user's machine: %+v", k)
	}
}

// TestBlockedAgreesWithCan reads the reasons and ends off a table.
func TestBlockedAgreesWithCan(t *testing.T) {
	j := domain.NewJudge(lifecycle.Registry())
	limited := domain.Condition{Name: "rate_limited", Since: 1, Until: 100}
	limitedForEver := domain.Condition{Name: "rate_limited", Since: 1}
	newChats := domain.Condition{Name: "restricted", Scope: "new_chats", Since: 1, Until: 200}
	unvouched := domain.Condition{Name: "unvouched", Since: 1}
	stuck := domain.Condition{Name: "stuck", Since: 1}
	for _, tt := range []struct {
		state, what, scope string
		conditions         []domain.Condition
		by                 string // "" = it can; "state" and the blocking conditions otherwise
		until              int64
	}{
		{"RUNNING", "send", "", nil, "", 0},
		{"RUNNING", "send", "new_chats", nil, "", 0},
		{"RUNNING", "send", "", []domain.Condition{newChats, stuck}, "", 0},
		{"RUNNING", "send", "new_chats", []domain.Condition{newChats}, "restricted", 200},
		{"RUNNING", "bulk", "", []domain.Condition{newChats}, "restricted", 200},
		{"RUNNING", "bulk", "groups", []domain.Condition{newChats}, "", 0},
		{"RUNNING", "send", "", []domain.Condition{unvouched}, "unvouched", 0},
		{"RUNNING", "read", "", []domain.Condition{unvouched}, "", 0},
		{"RUNNING", "bulk", "", []domain.Condition{limited, newChats}, "rate_limited,restricted", 200},
		{"RUNNING", "send", "new_chats", []domain.Condition{newChats, unvouched}, "restricted,unvouched", 0},
		{"DEGRADED", "send", "", []domain.Condition{limited}, "state,rate_limited", 100},
		{"DEGRADED", "send", "", []domain.Condition{limitedForEver}, "state,rate_limited", 0},
		{"DEGRADED", "read", "", []domain.Condition{limited}, "", 0},
		{"DEGRADED", "send", "", nil, "state", 0},
		{"STOPPED", "send", "", []domain.Condition{newChats}, "state", 0},
		{"STOPPED", "send", "new_chats", []domain.Condition{newChats}, "state,restricted", 0},
		{"RUNNING", "fly", "", nil, "state", 0},
	} {
		a := &domain.Account{ID: "a", Machine: "whatsapp@2", State: tt.state, Conditions: tt.conditions}
		b, blocked := j.Blocked(a, tt.what, tt.scope)
		var by []string
		if b.State {
			by = append(by, "state")
		}
		for _, c := range b.Conditions {
			by = append(by, c.Name)
		}
		if got := strings.Join(by, ","); got != tt.by || b.Until != tt.until || blocked != (tt.by != "") {
			t.Errorf("%s %s in %q with %v: blocked %v by %q until %d, want %q until %d", tt.state, tt.what, tt.scope, tt.conditions, blocked, got, b.Until, tt.by, tt.until)
		}
		if j.Can(a, tt.what, tt.scope) == blocked {
			t.Errorf("%s %s in %q: Can and Blocked do not agree", tt.state, tt.what, tt.scope)
		}
	}
	if b, blocked := j.Blocked(&domain.Account{Machine: "gone@1", State: "UP"}, "read", ""); !blocked || !b.State {
		t.Error("an account of an unknown machine can read")
	}
}
