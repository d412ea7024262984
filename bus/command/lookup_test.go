package command_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/memlog"
)

// Accounts are looked up in the partitions that are owned, while the writers
// run and when they have ended.
func TestLookUp(t *testing.T) {
	log := memlog.New(2)
	all := open(t, command.Config{Log: log})
	for i := range 40 {
		all.Do(t.Context(), trigger(fmt.Sprint(i), "start", ""))
	}
	shut(t, all)
	s, err := command.NewSet(command.Config{Log: log, Judge: judge()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		owned := map[domain.AccountID]bool{}
		err := s.Owned(t.Context(), func(partition int, a *domain.Account) {
			if partition != 1 || a.State != "CONNECTING" {
				t.Errorf("account %s of partition %d is %s", a.ID, partition, a.State)
			}
			owned[a.ID] = true
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(owned) == 0 || len(owned) == 40 {
			t.Fatalf("%d of 40 accounts are owned", len(owned))
		}
		for i := range 40 {
			id := domain.AccountID(fmt.Sprint(i))
			a, err := s.Account(t.Context(), id)
			switch {
			case owned[id] && (err != nil || a == nil || a.ID != id || a.Version != 1):
				t.Errorf("account %s: %+v, %v", id, a, err)
			case !owned[id] && !errors.Is(err, command.ErrNotOwner):
				t.Errorf("account %s of another's partition: %+v, %v", id, a, err)
			}
		}
		for i := range 40 { // one that is not stored, in the partition that is owned
			id := domain.AccountID(fmt.Sprint("none-", i))
			if a, err := s.Account(t.Context(), id); s.Partition(id) == 1 && (a != nil || err != nil) {
				t.Errorf("account %s: %+v, %v", id, a, err)
			}
		}
	}
	look()
	shut(t, s)
	look()
}
