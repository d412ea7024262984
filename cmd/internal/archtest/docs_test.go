package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence    = regexp.MustCompile("(?m)^ *```")
	testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*\b`)
	fileName = regexp.MustCompile(`^[\w.-]+\.(?:go|md|mod|sum|ya?ml|jsonl)$`)
	lineRef  = regexp.MustCompile(`(?::\d+)+$`)
)

// document is one .md file, in parts.
type document struct {
	name   string // from the root
	spans  []string
	links  []string
	blocks []string // what stands between fences
}

func documents(t *testing.T) []document {
	t.Helper()
	var docs []document
	err := walk(func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		docs = append(docs, parseDocument(name, string(text)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func parseDocument(name, text string) document {
	d := document{name: name}
	for i, part := range fence.Split(text, -1) {
		if i%2 == 1 {
			d.blocks = append(d.blocks, part)
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(part, -1) {
			d.spans = append(d.spans, m[1])
		}
		for _, m := range link.FindAllStringSubmatch(part, -1) {
			d.links = append(d.links, m[1])
		}
	}
	return d
}

// paths returns what the document names that is meant to be a path of the
// project: link targets, words in code that begin with a folder of ours, and
// code spans that are the bare name of a file.
func (d *document) paths() []string {
	var found []string
	for _, l := range d.links {
		if !strings.Contains(l, "://") && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "mailto:") {
			found = append(found, l)
		}
	}
	for _, code := range append(d.spans, d.blocks...) {
		for word := range strings.FieldsSeq(code) {
			word = strings.TrimPrefix(strings.Trim(word, `"'(),;:`), "./")
			if _, ours := below[top(word)]; ours && strings.Contains(word, "/") {
				found = append(found, word)
			}
		}
	}
	for _, s := range d.spans {
		if fileName.MatchString(s) {
			found = append(found, s)
		}
	}
	return found
}

func TestDocumentsNamePathsThatExist(t *testing.T) {
	docs := documents(t)
	if len(docs) == 0 {
		t.Fatal("found no .md file: the test looks in the wrong place")
	}
	for _, d := range docs {
		for _, p := range d.paths() {
			clean, _, _ := strings.Cut(lineRef.ReplaceAllString(p, ""), "#")
			clean = strings.TrimSuffix(strings.TrimSuffix(clean, "..."), ".")
			if strings.ContainsAny(clean, "*<>{}$…|") {
				continue // a pattern, not a path
			}
			if !exists(clean) && !exists(path.Join(path.Dir(d.name), clean)) {
				t.Errorf("%s names %s, which does not exist", d.name, p)
			}
		}
	}
}

func TestDocumentsNameTestsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, f := range tree(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok {
				known[fn.Name.Name] = true
			}
		}
	}
	for _, d := range documents(t) {
		for _, code := range d.spans {
			for _, name := range testName.FindAllString(code, -1) {
				if !known[name] {
					t.Errorf("%s names the test %s, which does not exist", d.name, name)
				}
			}
		}
	}
}

func TestDocumentPathsAreFound(t *testing.T) {
	d := parseDocument("x.md", "see `cmd/nosuch.go:12`, [the log](eventlog/log.go#L1), `README.md` and\n```sh\n./muster try domain/testdata/a.jsonl\n```\nbut not `muster serve` or https://example.org/cmd/x")
	want := []string{"eventlog/log.go#L1", "cmd/nosuch.go:12", "domain/testdata/a.jsonl", "README.md"}
	got := d.paths()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("paths() = %q, want %q", got, want)
	}
}
