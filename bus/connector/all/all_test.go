package all_test

import (
	"slices"
	"testing"

	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// TestRecordedSequences plays every recorded sequence of every kind.
func TestRecordedSequences(t *testing.T) {
	judge := domain.NewJudge(lifecycle.Registry())
	for _, k := range all.Kinds() {
		if k.Name == "plain" {
			continue // no peer's: it has no recorded sequences
		}
		t.Run(k.Name, func(t *testing.T) {
			connectortest.Play(t, k.New(judge), "../connectortest/testdata/"+k.Name)
		})
	}
}

func TestTable(t *testing.T) {
	want := []string{"cloud", "cloudevents", "evolution", "eyun", "gewechat", "mautrix", "plain", "waha", "wuzapi"}
	if got := all.Names(); !slices.Equal(got, want) {
		t.Errorf("the kinds are %v, want %v", got, want)
	}
	for _, k := range all.Kinds() {
		c := k.New(domain.NewJudge(lifecycle.Registry()))
		if c.Kind() != k.Name || len(c.Methods()) == 0 {
			t.Errorf("%s makes a connector of kind %q with methods %v", k.Name, c.Kind(), c.Methods())
		}
		if found, ok := all.Named(k.Name); !ok || found.Name != k.Name {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
	if _, ok := all.Named("nobody"); ok {
		t.Error("a kind that there is not was found")
	}
}
