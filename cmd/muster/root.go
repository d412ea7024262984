package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/musterhq/muster/domain/machine"
)

// streams are where a command reads and writes.
type streams struct {
	in  io.Reader
	out io.Writer // data only
	err io.Writer // everything else
}

// commands are the commands of muster, in the order of the help.
var commands = []func(*cli) *cobra.Command{
	newSend,
	newServe,
	newAccounts,
	newWhy,
	newTimeline,
	newTail,
	newAttention,
	newAlerts,
	newCan,
	newRoute,
	newClaim,
	newMessages,
	newConversations,
	newStats,
	newDigest,
	newTry,
	newArchive,
	newReplay,
	newVerify,
	newImport,
	newExport,
	newErase,
	newRepair,
	newMachines,
	newWorkers,
	newProjections,
	newConnectors,
	newInbox,
	newToken,
	newMetrics,
	newSimulate,
	newDemo,
	newCheck,
	newBench,
	newConfig,
	newVersion,
}

// cli is what all commands share.
type cli struct {
	streams
	format format // -o
	server string // --server
}

const longHelp = `Muster keeps the truth about a fleet of messaging accounts. Connectors tell it what
happened to an account; Muster judges that against a transition table, keeps it for ever,
and says what state each account is in, since when and why.

Start a server with "muster serve", then send triggers and ask questions from another
terminal. "muster try FILE" judges a trace without any server.`

// newRoot returns the whole command tree.
func newRoot(s streams) *cobra.Command {
	c := &cli{streams: s}
	root := &cobra.Command{
		Use:           "muster",
		Short:         "The source of truth for a fleet of messaging accounts",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if c.format == asYAML && cmd.Annotations["output"] != string(asYAML) {
				return usage("%s prints no yaml; choose table, json or jsonl", cmd.CommandPath())
			}
			return nil
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.VarP(&c.format, "output", "o", "how to print data: table, json or jsonl")
	flags.StringVar(&c.server, "server", serverFromEnv(), "NATS address of the server (MUSTER_SERVER)")
	for _, add := range commands {
		root.AddCommand(add(c))
	}
	root.AddCommand(newExitCodesHelp())
	complete(root)
	return group(root)
}

// defaultServer is where `muster serve` listens when nothing else is said.
const defaultServer = "nats://127.0.0.1:4222"

func serverFromEnv() string {
	if s := os.Getenv("MUSTER_SERVER"); s != "" {
		return s
	}
	return defaultServer
}

// run executes the program and returns its exit code. What went wrong is said
// in one place, here.
func run(ctx context.Context, s streams, args []string) int {
	root := newRoot(s)
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would read os.Args
	err := root.ExecuteContext(ctx)
	var said *saidError
	if err != nil && !errors.As(err, &said) {
		fmt.Fprintf(s.err, "muster: %v\n", err)
	}
	return exitCode(err)
}

// flagKinds says what a flag's value is, for those whose own error says how it
// was parsed.
var flagKinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "bool": "true or false", "duration": "a time such as 500ms, 30s or 5m",
	"stringToString": "written name=value",
}

// flagError makes what is wrong with a flag a usage error. For an unknown one it
// names the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want := flagKinds[bad.GetFlag().Value.Type()]; want != "" {
			return usage("--%s is %q; it is %s (see %s --help)", bad.GetFlag().Name, bad.GetValue(), want, cmd.CommandPath())
		}
	}
	unknown, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usage("%w (see %s --help)", err, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := ""
	if n := machine.Closest(unknown, names); n != "" {
		near = fmt.Sprintf("; did you mean --%s?", n)
	}
	return usage("%s has no flag --%s%s (see %[1]s --help)", cmd.CommandPath(), unknown, near)
}

// takes is the argument rule of a command with exactly these arguments.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := "no argument"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return usage("%s takes %s; %d given (see %[1]s --help)", cmd.CommandPath(), want, len(args))
	}
}

// group makes a command that only holds others: alone it prints its help, and
// an unknown word after it is a usage error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		near := ""
		if n := machine.Closest(args[0], names); n != "" {
			near = fmt.Sprintf("; did you mean %q?", n)
		}
		return usage("%s has no command %q%s (see %[1]s --help)", cmd.CommandPath(), args[0], near)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}
