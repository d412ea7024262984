package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toplevel are the names that may stand in the project's root.
var toplevel = []string{
	"cmd", "domain", "projections", "bus", "eventlog", "go.mod", "go.sum",
	"docker-compose.yml", "Dockerfile", "Makefile",
	"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE",
	".git", ".ci", ".golangci.yaml", ".editorconfig", ".gitignore", ".gitattributes", ".dockerignore",
}

// mustStand are the names without which the project is not whole.
var mustStand = []string{
	"cmd", "domain", "projections", "bus", "eventlog", "go.mod", "go.sum", "docker-compose.yml", "Makefile",
	"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE",
}

// The size budget. A longer function is a wiring function that says why it is
// flat, and stands in longFunctions.
const (
	maxFunctionLines = 80
	maxFileLines     = 600
)

// longFunctions may exceed the budget, each for its reason.
var longFunctions = map[string]string{}

func TestTopLevelNames(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ignored := ignoredAtRoot(t)
	for _, e := range entries {
		if !slices.Contains(toplevel, e.Name()) && !matchesAny(ignored, e.Name()) {
			t.Errorf("%s stands at the top level: only %s may", e.Name(), strings.Join(toplevel, ", "))
		}
	}
	for _, name := range mustStand {
		if !exists(name) {
			t.Errorf("%s is missing at the top level", name)
		}
	}
}

// ignoredAtRoot returns the patterns of .gitignore: what a build or a run
// leaves behind is no part of the project.
func ignoredAtRoot(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, strings.Trim(line, "/"))
		}
	}
	return patterns
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

func TestEveryPackageHasAComment(t *testing.T) {
	commented := map[string]bool{}
	for _, f := range tree(t) {
		if !f.test {
			commented[f.pkg] = commented[f.pkg] || f.ast.Doc != nil
		}
	}
	for pkg, ok := range commented {
		if !ok {
			t.Errorf("package %s has no package comment: say what it owns, what is authoritative, and what happens when it fails", pkg)
		}
	}
}

func TestEveryExportedNameHasAComment(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || f.ast.Name.Name == "main" {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, id := range bareExports(d) {
				t.Errorf("%s:%d: %s has no doc comment", f.path, f.line(id.Pos()), id.Name)
			}
		}
	}
}

// bareExports returns the exported names that a declaration leaves without a
// comment. A comment on a group stands for every name in it.
func bareExports(d ast.Decl) []*ast.Ident {
	var bare []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			bare = append(bare, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
					bare = append(bare, s.Name)
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if d.Doc == nil && s.Doc == nil && s.Comment == nil && id.IsExported() {
						bare = append(bare, id)
					}
				}
			}
		}
	}
	return bare
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			exported = true
		}
		return true
	})
	return exported
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range tree(t) {
		if !f.test && !testKit(f.pkg) {
			continue
		}
		uses(f, "time", func(sel *ast.SelectorExpr) {
			if sel.Sel.Name == "Sleep" {
				t.Errorf("%s:%d sleeps: wait for a signal, poll with a ticker and a deadline, or use testing/synctest",
					f.path, f.line(sel.Pos()))
			}
		})
	}
}

func TestSkipsSayWhy(t *testing.T) {
	for _, f := range tree(t) {
		if !f.test && !testKit(f.pkg) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && len(call.Args) == 0 && slices.Contains([]string{"Skip", "SkipNow", "Skipf"}, sel.Sel.Name) {
				t.Errorf("%s:%d skips without a reason", f.path, f.line(call.Pos()))
			}
			return true
		})
	}
}

func TestFunctionsAndFilesStayShort(t *testing.T) {
	for _, f := range tree(t) {
		if f.test {
			continue
		}
		if n := f.line(f.ast.FileEnd); n > maxFileLines {
			t.Errorf("%s has %d lines: %d is the most", f.path, n, maxFileLines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || longFunctions[f.pkg+"."+fn.Name.Name] != "" {
				continue
			}
			if n := f.line(fn.End()) - f.line(fn.Pos()) + 1; n > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines: %d is the most", f.path, f.line(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
}
