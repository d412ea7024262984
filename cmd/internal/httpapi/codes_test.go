package httpapi

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// titles finds where an error of the bus is made.
var titles = regexp.MustCompile(`Title: "([^"]+)"|http\.Status\w+, "([^"]+)", (?:true|false)`)

// elsewhere are errors that nothing under HTTP can give, each for its reason.
var elsewhere = map[string]string{
	"the inbox is full":      "triggers that come over HTTP are judged, not put into the inbox",
	"too many workers":       "workers say hello on the bus",
	"invalid worker message": "workers say hello on the bus",
}

// TestTitlesOfTheBusHaveCodes looks for every error of the bus in the source, and
// wants a row of the table for its title.
func TestTitlesOfTheBusHaveCodes(t *testing.T) {
	known := map[string]bool{}
	for i := range codes {
		for _, title := range codes[i].titles {
			known[title] = true
		}
	}
	found := 0
	for _, root := range []string{"../../../bus", "../app", "../auth"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range titles.FindAllStringSubmatch(string(text), -1) {
				found++
				if title := m[1] + m[2]; !known[title] && elsewhere[title] == "" {
					t.Errorf("%s gives an error %q, which has no code", path, title)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("only %d errors were found: the test looks in the wrong place", found)
	}
}

func TestCodesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	word := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	status := 0
	for _, c := range Codes() {
		if seen[c.Code] || !word.MatchString(c.Code) || !strings.HasSuffix(c.About, ".") && !strings.HasSuffix(c.About, "…") {
			t.Errorf("the row of %q is not well formed", c.Code)
		}
		if c.Status != 0 && c.Status < status {
			t.Errorf("%s stands behind a higher status", c.Code)
		}
		seen[c.Code], status = true, c.Status
	}
}

// documents is where the table of codes is told.
const documents = "../../../ARCHITECTURE.md"

// TestTheDocumentsHaveTheTable holds the table in the documents to the code. With
// MUSTER_UPDATE set it is written anew.
func TestTheDocumentsHaveTheTable(t *testing.T) {
	const begin, end = "<!-- codes: made by cmd/internal/httpapi -->\n", "<!-- end of codes -->"
	text, err := os.ReadFile(documents)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table of codes", documents)
	}
	if table == CodesTable() {
		return
	}
	if os.Getenv("MUSTER_UPDATE") == "" {
		t.Fatalf("%s is not up to date: run this test with MUSTER_UPDATE=1", documents)
	}
	if err := os.WriteFile(documents, []byte(before+begin+CodesTable()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
