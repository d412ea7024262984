package hub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/memlog"
)

// writers are those of a log in memory, of which only some partitions are open.
func writers(t *testing.T, most int, open ...int) *command.Set {
	t.Helper()
	set, err := command.NewSet(command.Config{Log: memlog.New(4), Judge: domain.NewJudge(lifecycle.Registry()), MaxRecord: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, p := range open {
		if _, err := set.Open(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

func trigger(account, name string) domain.Trigger {
	return domain.Trigger{Account: domain.AccountID(account), Name: name, Source: "toy", Expect: domain.NoExpect, HasAt: true, At: time.Now().UnixNano()}
}

func TestLive(t *testing.T) {
	l := &hub.Live{Writers: writers(t, 0, 0, 1, 2, 3)}
	if a, err := l.Account(t.Context(), "toy:a"); a != nil || err != nil {
		t.Fatalf("an account without events: %v, %v", a, err)
	}
	for _, one := range []domain.Trigger{trigger("toy:a", "start"), trigger("toy:b", "start"), trigger("toy-2:a", "start"), trigger("toy:a", "connection_ready")} {
		if v, err := l.Judge(t.Context(), one); v.Outcome != domain.Applied || err != nil {
			t.Fatalf("%s: %v, %v", one.Name, v, err)
		}
	}
	if a, err := l.Account(t.Context(), "toy:a"); err != nil || a.State != "RUNNING" || a.Version != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	ids, err := l.OfSource(t.Context(), "toy", func(*domain.Account) bool { return true })
	same(t, "accounts of the source", ids, "[toy:a toy:b]")
	same(t, "error", err, "<nil>")
	ids, err = l.OfSource(t.Context(), "toy", connector.Up)
	same(t, "those that are up", ids, "[toy:a]")
	same(t, "error", err, "<nil>")
}

// TestLiveElsewhere: accounts that another process writes are folded from the log
// and judged there.
func TestLiveElsewhere(t *testing.T) {
	var sent []string
	l := &hub.Live{
		Writers: writers(t, 0),
		Fold: func(_ context.Context, id domain.AccountID) (*domain.Account, error) {
			return &domain.Account{ID: id, State: "RUNNING"}, nil
		},
		Send: func(_ context.Context, t domain.Trigger) (domain.Verdict, error) {
			sent = append(sent, t.Name)
			if t.Name == "stop" {
				return domain.Verdict{}, errors.New("nobody is there")
			}
			return domain.Verdict{Outcome: domain.Noop}, nil
		},
	}
	if a, err := l.Account(t.Context(), "toy:a"); err != nil || a.State != "RUNNING" {
		t.Errorf("%+v, %v", a, err)
	}
	if v, err := l.Judge(t.Context(), trigger("toy:a", "start")); v.Outcome != domain.Noop || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := l.Judge(t.Context(), trigger("toy:a", "stop")); err == nil || !strings.Contains(err.Error(), "nobody is there") {
		t.Errorf("got %v", err)
	}
	same(t, "sent", sent, "[start stop]")
}

// TestLiveTooLarge: what no log could take is invalid, for a repeat would not help.
func TestLiveTooLarge(t *testing.T) {
	l := &hub.Live{Writers: writers(t, 500, 0, 1, 2, 3)}
	large := trigger("toy:a", "start")
	large.Reason.Text = strings.Repeat("x", 1000)
	if v, err := l.Judge(t.Context(), large); v.Outcome != domain.Invalid || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if err := l.Writers.(*command.Set).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Judge(t.Context(), trigger("toy:a", "start")); !errors.Is(err, command.ErrShuttingDown) {
		t.Errorf("at the end: %v", err)
	}
}
