package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/musterhq/muster"

// root is the project's root, seen from this package.
const root = "../../.."

// goFile is one parsed Go file. All of them are read, whatever their build
// tags, so that no platform's file escapes a rule.
type goFile struct {
	path string // from the root, with slashes
	pkg  string // folder of the package, from the root
	test bool   // a _test.go file
	ast  *ast.File
	fset *token.FileSet
}

// imports returns the paths that f imports.
func (f *goFile) imports() []string {
	var paths []string
	for _, i := range f.ast.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

// line returns the line of a position.
func (f *goFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// testKit says whether a package exists for tests only: its name ends in
// "test", like eventlogtest.
func testKit(pkg string) bool { return strings.HasSuffix(path.Base(pkg), "test") }

var parsed = sync.OnceValues(parseTree)

// tree returns every Go file of the project.
func tree(t *testing.T) []*goFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found %d Go files under %s: this is not the project's root", len(files), root)
	}
	return files
}

func parseTree() ([]*goFile, error) {
	var files []*goFile
	fset := token.NewFileSet()
	err := walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, &goFile{
			path: name,
			pkg:  path.Dir(name),
			test: strings.HasSuffix(name, "_test.go"),
			ast:  f,
			fset: fset,
		})
		return nil
	})
	return files, err
}

// walk calls visit with every file of the project, by its path from the root.
// Folders that Go leaves out (a leading dot or underscore, testdata) and what
// a run leaves behind are left out, too.
func walk(visit func(name string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return visit(filepath.ToSlash(name))
		}
		base := d.Name()
		if p != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
			base == "testdata" || base == "muster-data" || base == "dist") {
			return filepath.SkipDir
		}
		return nil
	})
}

// exists says whether a path from the root exists.
func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// uses calls visit for each use pkgName.Selector of an imported package in f.
func uses(f *goFile, importPath string, visit func(sel *ast.SelectorExpr)) {
	name := path.Base(importPath)
	found := false
	for _, i := range f.ast.Imports {
		if strings.Trim(i.Path.Value, `"`) == importPath {
			found = true
			if i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	if !found {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
			visit(sel)
		}
		return true
	})
}
