package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

func newSend(c *cli) *cobra.Command {
	var f sendFlags
	var file string
	var keepGoing, toInbox bool
	cmd := &cobra.Command{
		Use:   "send (--account ID TRIGGER | --file FILE)",
		Short: "Send a trigger, or a trace of them, and print the verdicts",
		Long: `Send a trigger and print its verdict, which is in the history when it is printed. With
--file a whole trace is sent (one JSON object a line, oldest first; - is stdin): the verdicts
are printed one a line in the order of the file. At a line that is no trigger sending stops;
what stands before it is in. With --keep-going the rest is sent, too.

With --inbox the trigger is only put into the inbox, where it waits until it is judged: also
while Muster is down, if it uses a NATS server of its own. Its verdict shows in the history.

Exit codes: 2 when a trigger was invalid, 4 for a conflict with --expect, 8 when one was
rejected or stale. Of a file the first of these that happened at all is given.`,
		Example: `  muster send --account acct-1 --by user start
  muster send --account acct-1 --source waha-1 --epoch 3 --seq 17 qr_received
  muster send --account acct-1 --inbox connection_lost
  muster send --file trace.jsonl`,
		Args:              func(cmd *cobra.Command, args []string) error { return f.checkArgs(cmd, args, file) },
		ValidArgsFunction: oneOf(triggerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				return c.sendFile(cmd.Context(), file, keepGoing)
			}
			t, err := f.trigger(cmd.Flags(), args[0])
			if err != nil {
				return c.invalidTrigger(t, err)
			}
			if toInbox {
				return c.publish(cmd.Context(), t)
			}
			s, err := c.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			reply, err := s.Send(cmd.Context(), t)
			if errors.Is(err, bus.ErrInvalid) { // too large for a message
				return c.invalidTrigger(t, err)
			}
			if err != nil {
				return c.hint(err)
			}
			if err := c.printReply(&reply); err != nil {
				return err
			}
			return verdictError(&reply.Verdict)
		},
	}
	f.define(cmd.Flags())
	cmd.Flags().StringVar(&file, "file", "", "send the trace in this file; - is stdin")
	cmd.Flags().BoolVar(&toInbox, "inbox", false, "put it into the inbox and do not wait for a verdict")
	cmd.Flags().BoolVar(&keepGoing, "keep-going", false, "with --file: go on after a line that is no trigger")
	return cmd
}

// sendFlags are the fields of one trigger.
type sendFlags struct {
	account, key, machine, mode, at, source, id, by string
	reasonCode, reasonText, data                    string
	epoch, seq, expect                              int64
	labels                                          map[string]string
}

func (f *sendFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.account, "account", "", "the account it is about")
	fs.StringVar(&f.key, "key", "", "message id or contact, for triggers about one")
	fs.StringVar(&f.machine, "machine", "", "machine of a new account, e.g. whatsapp@2")
	fs.StringVar(&f.mode, "mode", "", "mode of a new account: observe or supervise")
	fs.StringToStringVar(&f.labels, "label", nil, "label of a new account: name=value, may be repeated")
	fs.StringVar(&f.at, "at", "", "when it was observed, RFC 3339 (default: now)")
	fs.StringVar(&f.source, "source", "", "who publishes it: a connector or worker")
	fs.Int64Var(&f.epoch, "epoch", 0, "which connection of the account: a number that grows; 0 = unknown")
	fs.Int64Var(&f.seq, "seq", 0, "which message of that connection; 0 = unknown")
	fs.StringVar(&f.id, "id", "", "id by which a repeated trigger is recognised")
	fs.StringVar(&f.by, "by", "", "who caused it: user, us, remote or unknown")
	fs.Int64Var(&f.expect, "expect", 0, "judge it only if the account is at this version")
	fs.StringVar(&f.reasonCode, "reason-code", "", "why, as a code of the source")
	fs.StringVar(&f.reasonText, "reason", "", "why, in words")
	fs.StringVar(&f.data, "data", "", "payload, a JSON object")
}

// checkArgs holds the rule that it is one trigger or one file.
func (f *sendFlags) checkArgs(cmd *cobra.Command, args []string, file string) error {
	switch {
	case file == "" && len(args) == 0:
		return usage("name a trigger, e.g. muster send --account acct-1 start, or a trace with --file")
	case file == "" && len(args) > 1:
		return usage("one trigger at a time, not %d: %s", len(args), strings.Join(args, " "))
	case file == "" && !cmd.Flags().Changed("account"):
		return usage("name the account: --account ID")
	case file == "" && cmd.Flags().Changed("keep-going"):
		return usage("--keep-going is for --file")
	case file == "":
		return nil
	}
	if len(args) > 0 {
		return usage("--file sends what is in the file; leave out %q", args[0])
	}
	var other string
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if fl.Name != "file" && fl.Name != "keep-going" && cmd.InheritedFlags().Lookup(fl.Name) == nil {
			other = fl.Name
		}
	})
	if other != "" {
		return usage("--file sends what is in the file; leave out --%s", other)
	}
	return nil
}

// trigger makes the trigger that the flags describe. It goes through the same
// decoder as every other input, so that the rules are the same.
func (f *sendFlags) trigger(fs *pflag.FlagSet, name string) (domain.Trigger, error) {
	fields := map[string]any{"account": f.account, "trigger": name}
	for field, text := range map[string]string{
		"account": f.account, "trigger": name, "key": f.key, "machine": f.machine, "mode": f.mode, "at": f.at, "source": f.source, "id": f.id, "by": f.by,
	} {
		if text != "" {
			fields[field] = text
		}
		if !utf8.ValidString(text) {
			return domain.Trigger{Name: name}, fmt.Errorf("%s: is not valid UTF-8", field)
		}
	}
	for field, n := range map[string]int64{"epoch": f.epoch, "seq": f.seq, "expect": f.expect} {
		if fs.Changed(field) {
			fields[field] = n
		}
	}
	if len(f.labels) > 0 {
		fields["labels"] = f.labels
	}
	if f.reasonCode != "" || f.reasonText != "" {
		fields["reason"] = map[string]string{"code": f.reasonCode, "text": f.reasonText}
	}
	if f.data != "" {
		if !json.Valid([]byte(f.data)) {
			t := domain.Trigger{Account: domain.AccountID(f.account), Name: name}
			return t, fmt.Errorf("--data is not JSON: %s", f.data)
		}
		fields["data"] = json.RawMessage(f.data)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return domain.Trigger{}, fmt.Errorf("write the trigger: %w", err)
	}
	return domain.ParseTrigger(text)
}

// invalidTrigger prints the verdict on what is not a trigger at all, without
// asking a server.
func (c *cli) invalidTrigger(t domain.Trigger, why error) error {
	reply := invalidReply(t, why)
	if err := c.printReply(&reply); err != nil {
		return err
	}
	return verdictError(&reply.Verdict)
}

func invalidReply(t domain.Trigger, why error) bus.Reply {
	return bus.Reply{
		Verdict: domain.Verdict{
			Account: t.Account, Key: t.Key, Trigger: t.Name, Source: t.Source, Outcome: domain.Invalid, Reason: why.Error(),
		},
		Partition: -1,
	}
}

// printReply writes one verdict: as JSON on one line, or for people.
func (c *cli) printReply(r *bus.Reply) error {
	if c.format == table {
		return print(c.out, printable(verdictLine(&r.Verdict))+"\n")
	}
	return print(c.out, string(append(r.AppendJSON(nil), '\n')))
}

// verdictLine says a verdict in one line.
func verdictLine(v *domain.Verdict) string {
	about := string(v.Account)
	if v.Key != "" {
		about += " " + v.Key
	}
	why := v.Outcome.String()
	if v.Reason != "" {
		why += ": " + v.Reason
	}
	if v.Outcome == domain.Applied && v.From != v.To {
		return fmt.Sprintf("%s: %s -> %s via %s (version %d)", about, v.From, v.To, v.Trigger, v.Version)
	}
	return fmt.Sprintf("%s: %s %s (%s)", about, v.From, v.Trigger, why)
}

// outcomeClasses gives the class of a verdict that is no success.
var outcomeClasses = map[domain.Outcome]error{
	domain.Invalid:  errUsage,
	domain.Conflict: errConflict,
	domain.Rejected: errRefused,
	domain.Stale:    errRefused,
}

// verdictError returns the error for a verdict, nil when it is a success. A
// duplicate counts as what it was the first time.
func verdictError(v *domain.Verdict) error {
	if v.Outcome == domain.Duplicate {
		return as(outcomeClasses[v.Earlier], fmt.Errorf("duplicate of a trigger that was %s: %s", v.Earlier, v.Reason))
	}
	return as(outcomeClasses[v.Outcome], errors.New(v.Outcome.String()+": "+v.Reason))
}
