package eventlog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// DESIGN.md argues each promise; every claim must name a test, and the test must exist.
func TestDesignNamesItsTests(t *testing.T) {
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testFunctions(t)
	names := regexp.MustCompile("`((?:[Tt]est|Fuzz)[A-Z][A-Za-z0-9]*)`")
	for _, m := range names.FindAllStringSubmatch(string(text), -1) {
		if !known[m[1]] {
			t.Errorf("DESIGN.md names the test %s, which does not exist", m[1])
		}
	}
	claims := 0
	for _, name := range []string{"Append", "Read", "Recover", "Leases"} {
		_, section, ok := strings.Cut(string(text), "\n## "+name+"\n")
		if !ok {
			t.Errorf("DESIGN.md has no section %s", name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, claim := range regexp.MustCompile(`(?m)^\d+\. `).Split(section, -1)[1:] {
			if claims++; !names.MatchString(claim) {
				t.Errorf("DESIGN.md, %s: no test is named by %q", name, claim)
			}
		}
	}
	if claims < 25 {
		t.Errorf("found %d claims: the test reads the file wrongly", claims)
	}
}

// testFunctions collects the test functions of this folder and those below,
// and the cases of the conformance suite.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				known[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}
