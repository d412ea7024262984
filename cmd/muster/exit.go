package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus"
)

// The classes of what can go wrong in the commands themselves; test with
// errors.Is.
var (
	errUsage       = errors.New("usage or invalid input")
	errNotFound    = errors.New("not found")
	errConflict    = errors.New("conflict")
	errCondition   = errors.New("condition not met")
	errUnreachable = errors.New("cannot reach the server")
	errRefused     = errors.New("rejected or stale")
)

// exits is the table of exit codes: the one place that knows them. The first
// row with a class that the error is of decides; no row means 1.
var exits = []struct {
	code    int
	meaning string
	classes []error
}{
	{0, "ok", nil},
	{1, "failure", nil},
	{2, "usage, or invalid input", []error{errUsage, bus.ErrInvalid, bus.ErrCredentialsRequired}},
	{3, "not found", []error{errNotFound, bus.ErrNotFound}},
	{4, "conflict: the account is not at the expected version", []error{errConflict}},
	{5, "condition not met", []error{errCondition}},
	{6, "cannot reach the server", []error{errUnreachable, bus.ErrUnreachable}},
	{7, "not allowed", []error{bus.ErrNotAllowed}},
	{8, "rejected or stale: judged, and nothing moved", []error{errRefused}},
}

// exitCode returns the exit code for what a command returned.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	for _, e := range exits {
		for _, class := range e.classes {
			if errors.Is(err, class) {
				return e.code
			}
		}
	}
	return 1
}

// classed is an error of a class that is told in its own words only.
type classed struct {
	class error
	err   error
}

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }

// usage returns an errUsage with these words.
func usage(format string, args ...any) error {
	return &classed{errUsage, fmt.Errorf(format, args...)}
}

// as puts err into a class; without a class there is no error.
func as(class, err error) error {
	if class == nil || err == nil {
		return nil
	}
	return &classed{class, err}
}

// saidError is a failure that the command has told already, as data or on
// stderr: only its exit code is still to come.
type saidError struct{ err error }

func (e *saidError) Error() string { return e.err.Error() }
func (e *saidError) Unwrap() error { return e.err }

// newExitCodesHelp makes `muster help exit-codes`.
func newExitCodesHelp() *cobra.Command {
	var b strings.Builder
	b.WriteString("The exit codes of muster:\n\n")
	for _, e := range exits {
		fmt.Fprintf(&b, "  %d  %s\n", e.code, e.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimSpace(b.String())}
}

// print writes to w and returns the error, with what was being written.
func print(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
