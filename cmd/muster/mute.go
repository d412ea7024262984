package main

import (
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/cmd/internal/api"
)

// acting are the flags of what an operator does.
type acting struct {
	account, source, kind, incident string
	who, reason, until              string
	span                            time.Duration
}

func newMute(c *cli) *cobra.Command {
	var a acting
	cmd := &cobra.Command{
		Use:   "mute",
		Short: "Tell nobody for a while about an account, a source, a kind or an incident",
		Long: `Tell nobody for a while about an account, a source, a kind of attention or an incident; of
several flags all must fit. What is muted is still listed. When the mute ends, what still needs
somebody is told.`,
		Example: `  muster attention mute --source waha-1 --for 2h --reason "maintenance"
  muster attention mute --account acct-1 --kind stuck --reason "known, see OPS-17"`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.act(cmd, operator.Mute, &a, "") },
	}
	a.flags(cmd, true)
	return cmd
}

func newAck(c *cli) *cobra.Command {
	var a acting
	cmd := &cobra.Command{
		Use:   "ack",
		Short: "Say that somebody takes care: no reminders",
		Long: `Say that somebody takes care of an account, a source, a kind of attention or an incident: no
reminders of it are sent (the setting remind); of several flags all must fit.`,
		Example: `  muster attention ack --incident inc_k3x… --reason "on it"`,
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.act(cmd, operator.Ack, &a, "") },
	}
	a.flags(cmd, true)
	return cmd
}

func newUnmute(c *cli) *cobra.Command {
	var a acting
	cmd := &cobra.Command{
		Use:   "unmute [ID]",
		Short: "End a mute: the one of this id, or those with exactly this target",
		Example: `  muster attention unmute --source waha-1
  muster attention unmute act_X2…`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one mute at a time, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.act(cmd, operator.Unmute, &a, strings.Join(args, ""))
		},
	}
	a.flags(cmd, false)
	return cmd
}

func (a *acting) flags(cmd *cobra.Command, ends bool) {
	f := cmd.Flags()
	f.StringVar(&a.account, "account", "", "the account")
	f.StringVar(&a.source, "source", "", "all accounts of this source")
	f.StringVar(&a.kind, "kind", "", "this kind of attention, e.g. stuck")
	f.StringVar(&a.incident, "incident", "", "the incident, by its id (muster alerts list)")
	f.StringVar(&a.reason, "reason", "", "why, for those who look later")
	f.StringVar(&a.who, "who", userName(), "who does it")
	if ends {
		f.DurationVar(&a.span, "for", 0, "how long, e.g. 2h (default: for ever)")
		f.StringVar(&a.until, "until", "", "until when, e.g. 2026-01-01T10:00:00Z")
	}
}

// userName is the name of who runs the program.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// request puts the flags together.
func (a *acting) request(name operator.Name, id string, now time.Time) (api.ActRequest, error) {
	req := api.ActRequest{Action: string(name), By: a.who, Reason: a.reason, Until: a.until, Target: map[string]string{}}
	for key, value := range map[string]string{
		operator.Account: a.account, operator.Source: a.source, operator.Kind: a.kind, operator.Incident: a.incident, operator.ID: id,
	} {
		if value != "" {
			req.Target[key] = value
		}
	}
	switch {
	case len(req.Target) == 0 && name == operator.Unmute:
		return req, usage("name the mute by its id, or its target by --account, --source, --kind or --incident")
	case len(req.Target) == 0:
		return req, usage("name what it is about: --account, --source, --kind or --incident")
	case id != "" && len(req.Target) > 1:
		return req, usage("give the id of a mute or its target, not both")
	case a.span != 0 && a.until != "":
		return req, usage("give --for or --until, not both")
	case a.span < 0:
		return req, usage("--for is %v; give a time such as 30m or 2h", a.span)
	case a.span > 0:
		req.Until = now.Add(a.span).UTC().Format(time.RFC3339Nano)
	}
	return req, nil
}

// act has the server keep what an operator does.
func (c *cli) act(cmd *cobra.Command, name operator.Name, a *acting, id string) error {
	req, err := a.request(name, id, time.Now())
	if err != nil {
		return err
	}
	var done api.Action
	if err := c.query(cmd.Context(), api.ActQuery, req, &done); err != nil {
		return err
	}
	return c.show(done, func(t *grid) {
		until := ""
		if done.Until != "" {
			until = " until " + clock(done.Until)
		}
		t.line("%s %s%s (%s)", done.Action, targetText(done.Target), until, done.ID)
	})
}

// targetText is a target for people.
func targetText(target map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(target)) {
		parts = append(parts, fmt.Sprintf("%s=%s", k, target[k]))
	}
	return strings.Join(parts, " ")
}
