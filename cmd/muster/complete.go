package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/sim"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

// completions are what a shell offers for the flags that take one of a few
// words, wherever such a flag is.
var completions = map[string]func() []string{
	"output":    func() []string { return []string{string(table), string(asJSON), string(jsonl)} },
	"machine":   machineNames,
	"mode":      func() []string { return []string{domain.ModeObserve, domain.ModeSupervise} },
	"desired":   func() []string { return []string{domain.DesiredRun, domain.DesiredStop} },
	"class":     machine.Classes,
	"condition": conditionNames,
	"format":    func() []string { return []string{"mermaid", "dot"} },
	"do":        machine.Capabilities,
	"outcome":   outcomeNames,
	"profile":   sim.ProfileNames,
	"side":      func() []string { return []string{"bot", "human"} },
	"kind":      attentionNames,
	"by": func() []string {
		return []string{string(domain.ByUser), string(domain.ByUs), string(domain.ByRemote), string(domain.ByUnknown)}
	},
}

// complete registers the completions of a command and of those below it.
func complete(cmd *cobra.Command) {
	for flag, words := range completions {
		if cmd.LocalFlags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // a flag that exists, registered once
		}
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

func machineNames() []string {
	var names []string
	for _, m := range lifecycle.Registry().List() {
		names = append(names, m.Name())
	}
	return names
}

func attentionNames() []string {
	var names []string
	for _, k := range domain.AttentionKinds() {
		names = append(names, k.Name)
	}
	return names
}

func conditionNames() []string {
	var names []string
	for _, c := range machine.Conditions() {
		names = append(names, c.Name)
	}
	return names
}

// triggerNames lists what can be sent: the triggers of all built-in machines
// but Muster's own.
func triggerNames() []string {
	names := map[string]bool{}
	for _, m := range lifecycle.Registry().List() {
		for _, t := range m.Definition().Triggers {
			names[t] = true
		}
	}
	for _, t := range machine.ReservedNames() {
		names[t] = true
	}
	maps.DeleteFunc(names, func(t string, _ bool) bool {
		group, _ := machine.Reserved(t)
		return group == machine.GroupMark
	})
	return slices.Sorted(maps.Keys(names))
}

// oneOf completes the first argument with one of some words.
func oneOf(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(), cobra.ShellCompDirectiveNoFileComp
	}
}
