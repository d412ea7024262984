package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

func newAccounts(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "Look at accounts",
	}
	cmd.AddCommand(newAccountsGet(c), newAccountsList(c), newAccountsCount(c), newAccountsFlapping(c))
	return group(cmd)
}

func newAccountsGet(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show one account: its state, since when, its conditions and what it may do",
		Example: "  muster accounts get acct-1 -o json",
		Args:    takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var a api.Account
			req := api.GetRequest{Account: args[0], WaitFor: wait.position()}
			if err := c.query(cmd.Context(), api.GetQuery, req, &a); err != nil {
				return err
			}
			return c.show(a, func(t *grid) { accountSheet(t, &a.AccountView) })
		},
	}
	wait.flag(cmd)
	return cmd
}

// accountSheet lays out one account for people.
func accountSheet(t *grid, a *domain.AccountView) {
	t.line("%s is %s since %s", printable(string(a.ID)), a.State, clock(a.Since))
	t.head("MACHINE", "MODE", "CLASS", "DESIRED", "VERSION", "CAN", "SOURCE", "LABELS")
	t.row(a.Machine, a.Mode, a.Class, a.Desired, a.Version, abilities(a.Can), a.Source, labels(a.Labels))
	if len(a.Conditions) > 0 {
		t.line("")
		t.head("CONDITION", "SCOPE", "SINCE", "UNTIL", "REASON")
		for _, k := range a.Conditions {
			t.row(k.Name, k.Scope, clock(k.Since), clock(k.Until), k.Reason)
		}
	}
	if len(a.Attention) > 0 {
		t.line("")
		t.line("needs a human: %s", strings.Join(a.Attention, ", "))
	}
	if len(a.Messages) > 0 {
		t.line("")
		t.head("MESSAGE", "STATE", "LATE")
		for _, key := range sortedKeys(a.Messages) {
			t.row(key, a.Messages[key].State, a.Messages[key].Late)
		}
	}
	if len(a.Conversations) > 0 {
		t.line("")
		t.head("CONVERSATION", "STATE", "OPEN TURNS")
		for _, key := range sortedKeys(a.Conversations) {
			t.row(key, a.Conversations[key].State, a.Conversations[key].OpenTurns)
		}
	}
}

func abilities(can domain.CanView) string {
	var words []string
	for _, w := range []struct {
		name string
		may  bool
	}{{"read", can.Read}, {"send", can.Send}, {"bulk", can.Bulk}} {
		if w.may {
			words = append(words, w.name)
		}
	}
	return strings.Join(words, ",")
}

func labels(m map[string]string) string {
	var words []string
	for _, k := range sortedKeys(m) {
		words = append(words, k+"="+m[k])
	}
	return strings.Join(words, ",")
}

func newAccountsList(c *cli) *cobra.Command {
	var req api.ListRequest
	var wait waitFor
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts, page by page, in the order of their ids",
		Long: `List accounts in the order of their ids. Filters narrow the list, and all of them must
hold. A page ends with the id behind which the next one begins (--after); --all walks
through all pages.`,
		Example: `  muster accounts list --state LOGGED_OUT
  muster accounts list --class ready --label pool=eu --all -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Limit < 1 || req.Limit > api.MaxLimit {
				return usage("--limit is %d; from 1 to %d are possible", req.Limit, api.MaxLimit)
			}
			if err := checkFilters(&req, time.Now()); err != nil {
				return err
			}
			req.WaitFor = wait.position()
			return c.listAccounts(cmd.Context(), req, all)
		},
	}
	accountFilters(cmd, &req)
	f := cmd.Flags()
	f.IntVar(&req.Limit, "limit", api.DefaultLimit, "accounts on a page")
	f.StringVar(&req.After, "after", "", "begin behind this id")
	f.BoolVar(&all, "all", false, "walk through all pages")
	wait.flag(cmd)
	return cmd
}

// accountFilters are the flags that say which accounts are wanted.
func accountFilters(cmd *cobra.Command, req *api.ListRequest) {
	f := cmd.Flags()
	f.StringVar(&req.Prefix, "prefix", "", "only ids that begin so")
	f.StringVar(&req.Machine, "machine", "", "only accounts of this machine, e.g. whatsapp@2")
	f.StringVar(&req.State, "state", "", "only accounts in this state, e.g. RUNNING")
	f.StringVar(&req.Class, "class", "", "only accounts in a state of this class, e.g. ready")
	f.StringVar(&req.Condition, "condition", "", "only accounts with this condition, e.g. rate_limited")
	f.StringVar(&req.Desired, "desired", "", "only accounts that the operator wants to run, or stop")
	f.StringVar(&req.Source, "source", "", "only accounts of this source")
	f.StringVar(&req.Attention, "attention", "", "only accounts that need a human for this, e.g. scan_qr")
	f.StringVar(&req.SinceFrom, "since-from", "", "only accounts in their state since this time or later: a time, or a duration such as 10m for ten minutes ago")
	f.StringVar(&req.SinceBefore, "since-before", "", "only accounts in their state since before this time: a time, or a duration such as 10m for ten minutes ago")
	f.StringToStringVar(&req.Labels, "label", nil, "only accounts with this label: name=value, may be repeated")
}

// checkFilters refuses words that no account can have: an empty list would be
// taken for an answer. States and machines are the server's and are left to it.
// It makes times of durations before now.
func checkFilters(req *api.ListRequest, now time.Time) error {
	for _, f := range []struct {
		flag string
		text *string
	}{{"since-from", &req.SinceFrom}, {"since-before", &req.SinceBefore}} {
		if *f.text == "" {
			continue
		}
		at, err := domain.ParseTime(f.flag, *f.text)
		if d, bad := time.ParseDuration(*f.text); bad == nil && d >= 0 {
			at, err = now.Add(-d).UnixNano(), nil
		}
		if err != nil {
			return usage("--%s is %q; it is a duration such as 10m, or a time such as 2026-01-01T10:00:00Z", f.flag, *f.text)
		}
		*f.text = domain.FormatTime(at)
	}
	for _, f := range []struct {
		flag, value string
		words       []string
	}{
		{"class", req.Class, machine.Classes()},
		{"desired", req.Desired, []string{domain.DesiredRun, domain.DesiredStop}},
		{"condition", req.Condition, conditionNames()},
	} {
		if f.value != "" && !slices.Contains(f.words, f.value) {
			return usage("--%s is %q; it is one of %s", f.flag, f.value, strings.Join(f.words, ", "))
		}
	}
	return nil
}

// listAccounts prints one page, or with all every page. A server looks at so
// many accounts for one answer only, and may give fewer than asked for: more
// answers make the page full. As JSON lines they go out as they come; the
// other formats are one document.
func (c *cli) listAccounts(ctx context.Context, req api.ListRequest, all bool) error {
	whole := api.Page{Accounts: []domain.AccountView{}}
	wanted := req.Limit
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		var page api.Page
		if err := s.Query(ctx, api.ListQuery, req, &page); err != nil {
			return c.hint(err)
		}
		whole.Next, whole.AsOf = page.Next, page.AsOf
		if c.format == jsonl {
			for _, a := range page.Accounts {
				if err := printLine(c.out, a); err != nil {
					return err
				}
			}
		} else {
			whole.Accounts = append(whole.Accounts, page.Accounts...)
		}
		if wanted -= len(page.Accounts); page.Next == "" || (!all && wanted <= 0) {
			break
		}
		req.After, req.WaitFor = page.Next, nil
		if !all {
			req.Limit = wanted
		}
	}
	if whole.Next != "" && c.format.or(table) != asJSON {
		defer fmt.Fprintf(c.err, "there are more: --after %q\n", whole.Next)
	}
	if len(whole.Accounts) == 0 {
		c.hintState(req.State)
	}
	if c.format == jsonl {
		return nil
	}
	return c.show(whole, func(t *grid) { accountRows(t, whole.Accounts) })
}

// hintState says that a state which nothing was found in may be misspelt.
func (c *cli) hintState(state string) {
	var names []string
	for _, m := range lifecycle.Registry().List() {
		for _, s := range m.Definition().States {
			names = append(names, strings.ToLower(s.Name)) // as Closest compares
		}
	}
	if state == "" || slices.Contains(names, strings.ToLower(state)) && state == strings.ToUpper(state) {
		return
	}
	near := ""
	if n := machine.Closest(state, names); n != "" {
		near = fmt.Sprintf("; did you mean %q?", strings.ToUpper(n))
	}
	fmt.Fprintf(c.err, "no built-in machine has a state %q%s\n", state, near)
}

func accountRows(t *grid, accounts []domain.AccountView) {
	t.head("ACCOUNT", "MACHINE", "STATE", "SINCE", "VERSION", "DESIRED", "CAN", "CONDITIONS")
	for i := range accounts {
		a := &accounts[i]
		var names []string
		for _, k := range a.Conditions {
			names = append(names, k.Name)
		}
		t.row(string(a.ID), a.Machine, a.State, clock(a.Since), a.Version, a.Desired, abilities(a.Can), strings.Join(names, ","))
	}
}
