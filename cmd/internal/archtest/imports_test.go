package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// below is the dependency rule: a top-level folder may import itself and the
// folders listed here, nothing else of ours.
var below = map[string][]string{
	"domain":      {},
	"eventlog":    {"domain"},
	"bus":         {"domain", "eventlog"},
	"projections": {"domain", "eventlog"},
	"cmd":         {"domain", "eventlog", "bus", "projections"},
}

// bytesOnly are the packages that store records without knowing what they mean.
var bytesOnly = []string{"eventlog", "eventlog/natslog", "eventlog/memlog"}

// impure are the standard packages that the domain does without: time and new
// ids come in with the call, and what goes wrong goes out as a value.
var impure = []string{
	"context", "os", "os/exec", "io/fs", "net", "net/http", "log", "log/slog",
	"math/rand", "math/rand/v2", "crypto/rand", "sync", "runtime", "unsafe", "flag", "expvar",
}

// clock are the functions of package time that read or wait for a clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// transport are the packages that may import nats.go outside of tests; a
// folder stands for itself only, unless it ends in a slash.
var transport = []string{
	"eventlog/natslog", "eventlog/natstest",
	"bus", "bus/dispatch", "bus/query", "bus/inbox", "bus/pubsub", "bus/worker", "bus/presence", "bus/connector/", "bus/alert", "bus/operator", "bus/feed", "bus/subscribe",
	"cmd/internal/app",
	"cmd/internal/auth",    // the bucket of the tokens
	"cmd/internal/history", // a past is written into a log that nobody serves
	"cmd/internal/bench",   // measures the bare server beside ours
}

// overViews are packages among the views that are none, each for its reason.
var overViews = map[string]string{
	"projections/internal": "data structures that views share",
	"projections/stats":    "puts the answers of several views into one; it folds nothing",
}

// view returns the view that a package is or belongs to.
func view(pkg string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(pkg, "projections/")
	name = top(rest)
	return name, ok && !testKit(pkg) && overViews["projections/"+name] == ""
}

func inside(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

func top(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

// ours cuts the module's path off an import path.
func ours(imp string) (pkg string, ok bool) {
	return strings.CutPrefix(imp, module+"/")
}

func TestImportsGoDownOnly(t *testing.T) {
	for _, f := range tree(t) {
		from := top(f.pkg)
		rule, known := below[from]
		if !known {
			t.Errorf("%s: the top-level folder %q has no rule; code lives in cmd, bus, projections, eventlog and domain", f.path, from)
			continue
		}
		for _, imp := range f.imports() {
			pkg, ok := ours(imp)
			if ok && top(pkg) != from && !slices.Contains(rule, top(pkg)) {
				t.Errorf("%s imports %s: imports go down only, and %s may import %s",
					f.path, pkg, from, orNothing(rule))
			}
		}
	}
}

func orNothing(folders []string) string {
	if len(folders) == 0 {
		return "nothing else of ours"
	}
	return "only " + strings.Join(folders, ", ")
}

func TestDomainIsStandardLibraryOnly(t *testing.T) {
	for _, f := range tree(t) {
		if top(f.pkg) != "domain" || f.test || testKit(f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if _, ok := ours(imp); !ok && strings.Contains(imp, ".") {
				t.Errorf("%s imports %s: the domain uses the standard library only", f.path, imp)
			}
			if slices.Contains(impure, imp) {
				t.Errorf("%s imports %s: the domain is pure (no clock, I/O, log, randomness, context or goroutines)", f.path, imp)
			}
		}
		uses(f, "time", func(sel *ast.SelectorExpr) {
			if slices.Contains(clock, sel.Sel.Name) {
				t.Errorf("%s:%d uses time.%s: the domain is given the time, it does not read a clock",
					f.path, f.line(sel.Pos()), sel.Sel.Name)
			}
		})
	}
}

func TestLogsStoreBytesOnly(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || !slices.Contains(bytesOnly, f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			pkg, ok := ours(imp)
			if ok && (pkg == "eventlog/codec" || top(pkg) == "domain") {
				t.Errorf("%s imports %s: a log stores bytes; only eventlog/codec knows what they mean", f.path, pkg)
			}
		}
	}
}

func TestOnlyTheCodecAndSnapshotsKnowTheDomain(t *testing.T) {
	// eventlog/seal says which parts of an event are personal.
	knowing := []string{"eventlog/codec", "eventlog/snapshot", "eventlog/archive", "eventlog/seal"}
	for _, f := range tree(t) {
		if f.test || top(f.pkg) != "eventlog" || testKit(f.pkg) || slices.Contains(knowing, f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if pkg, ok := ours(imp); ok && top(pkg) == "domain" {
				t.Errorf("%s imports %s: within eventlog only %s know the domain", f.path, pkg, strings.Join(knowing, ", "))
			}
		}
	}
}

func TestTheWriterKnowsNoTransport(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || f.pkg != "bus/command" {
			continue
		}
		for _, imp := range f.imports() {
			if pkg, _ := ours(imp); pkg == "eventlog/natslog" || pkg == "bus" || strings.HasPrefix(imp, "github.com/nats-io/") {
				t.Errorf("%s imports %s: bus/command knows the log's contract and no transport", f.path, imp)
			}
		}
	}
}

func TestViewsDoNotImportEachOther(t *testing.T) {
	for _, f := range tree(t) {
		from, ok := view(f.pkg)
		if !ok || f.test {
			continue
		}
		for _, imp := range f.imports() {
			pkg, _ := ours(imp)
			if to, ok := view(pkg); ok && to != from {
				t.Errorf("%s imports %s: views do not import each other; two that need each other are one view", f.path, pkg)
			}
		}
	}
}

func TestNATSIsImportedInFewPlaces(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || mayUseNATS(f.pkg) || testKit(f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if strings.HasPrefix(imp, "github.com/nats-io/") || strings.HasPrefix(imp, "github.com/synadia-io/") {
				t.Errorf("%s imports %s: the transport is known only in %s", f.path, imp, strings.Join(transport, ", "))
			}
		}
	}
}

func mayUseNATS(pkg string) bool {
	return slices.ContainsFunc(transport, func(allowed string) bool {
		if folder, ok := strings.CutSuffix(allowed, "/"); ok {
			return inside(pkg, folder)
		}
		return pkg == allowed
	})
}

func TestTestKitsStayInTests(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || testKit(f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if pkg, ok := ours(imp); ok && testKit(pkg) {
				t.Errorf("%s imports %s: packages named …test are for tests only", f.path, pkg)
			}
			if imp == "testing" || strings.HasPrefix(imp, "testing/") || imp == "go.uber.org/goleak" || imp == "pgregory.net/rapid" {
				t.Errorf("%s imports %s: only tests and packages named …test may", f.path, imp)
			}
		}
	}
}

func TestEnvironmentAndFlagsAreReadInCmdOnly(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || top(f.pkg) == "cmd" || testKit(f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if imp == "flag" || path.Base(imp) == "pflag" {
				t.Errorf("%s imports %s: flags are read in cmd only", f.path, imp)
			}
		}
		uses(f, "os", func(sel *ast.SelectorExpr) {
			if slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "Args"}, sel.Sel.Name) {
				t.Errorf("%s:%d uses os.%s: the environment is read in cmd only", f.path, f.line(sel.Pos()), sel.Sel.Name)
			}
		})
	}
}
