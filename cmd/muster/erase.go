package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/seal"
)

func newErase(c *cli) *cobra.Command {
	var e app.Erasure
	var list bool
	cmd := &cobra.Command{
		Use:   "erase ACCOUNT",
		Short: "Destroy an account's personal data for ever, in the streams and in every archive",
		Long: `Destroy the key with which an account's personal data is encrypted, and so that data: in the
streams, the snapshots, every archive and every copy of either. Its versions, states and times
stay, under an alias that this command prints. It cannot be undone.

The data must have been created with the setting erasable, the account forgotten first (muster
send --account ID forget), and the server stopped. Copies of the folder "keys" that somebody has
made still open what they were made for: destroy them, too.

Afterwards every file of the data folder is searched for the account's id, its message and contact
ids and its texts. The exit code is 1 when one was found.`,
		Example: `  muster erase +15550100001 --data ./muster-data --reason "asked for by its owner, case 17"
  muster erase --list`,
		Args: func(_ *cobra.Command, args []string) error {
			if want := 1; list {
				want = 0
				if len(args) != want {
					return usage("--list takes no account")
				}
			} else if len(args) != want {
				return usage("give one account to erase, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return c.listErased(e.Data)
			}
			id, err := domain.ParseAccountID(args[0])
			if err != nil {
				return as(errUsage, err)
			}
			e.Account, e.Now = string(id), time.Now()
			switch {
			case e.Reason == "":
				return usage("--reason is missing: why, for those who look later")
			case strings.Contains(e.Reason, e.Account):
				return usage("--reason names the account; it is kept, so it must not")
			}
			r, err := app.Erase(cmd.Context(), e)
			if err != nil {
				return eraseClass(err)
			}
			if err := c.show(r, func(t *grid) { eraseSheet(t, r) }); err != nil {
				return err
			}
			if len(r.Found) > 0 {
				return &saidError{fmt.Errorf("something of the account is left in %s", strings.Join(r.Found, ", "))}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.Data, "data", "./muster-data", "data folder of the server, which must not be running")
	f.StringVar(&e.Reason, "reason", "", "why, for those who look later; it is kept")
	f.StringVar(&e.By, "who", userName(), "who does it")
	f.BoolVar(&list, "list", false, "list what was erased")
	return cmd
}

// eraseClass gives an error its exit code.
func eraseClass(err error) error {
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return as(errNotFound, err)
	case errors.Is(err, app.ErrNotForgotten), errors.Is(err, app.ErrWaiting):
		return as(errCondition, err)
	case errors.Is(err, app.ErrNotErasable):
		return as(errUsage, err)
	}
	return err
}

func eraseSheet(t *grid, r *app.ErasureReport) {
	if r.Already {
		t.line("%s was erased on %s by %s: %s", r.Alias, domain.FormatTime(r.At.UnixNano()), printable(r.By), printable(r.Reason))
		return
	}
	t.line("erased; what stays of it, %d events without what was personal, is account %s", r.Events, r.Alias)
	for _, path := range r.Found {
		t.line("something of it is left in %s", printable(path))
	}
	if len(r.Found) == 0 {
		t.line("%d personal texts were looked for in every file of the data folder: none is there", r.Searched)
	}
}

// erasedList is what `muster erase --list` prints.
type erasedList struct {
	Erased []seal.Erased `json:"erased"`
}

func (c *cli) listErased(data string) error {
	dir := app.KeysDir(data)
	if !seal.Exist(dir) {
		return as(errUsage, fmt.Errorf("%s: %w", data, app.ErrNotErasable))
	}
	list, err := seal.ReadErased(dir)
	if err != nil {
		return err
	}
	return c.show(erasedList{list}, func(t *grid) {
		t.head("ALIAS", "ERASED", "BY", "REASON")
		for _, e := range list {
			t.row(e.Alias, domain.FormatTime(e.At.UnixNano()), printable(e.By), printable(e.Reason))
		}
	})
}
