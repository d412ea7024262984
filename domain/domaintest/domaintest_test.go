package domaintest_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/musterhq/muster/domain/domaintest"
	"github.com/musterhq/muster/domain/lifecycle"
)

var update = flag.Bool("update", false, "write what comes out as what is expected; read the diff before it is committed")

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found (%v)", err)
	}
	reg := lifecycle.Registry()
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			list, err := domaintest.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				got, err := domaintest.Run(list[i], reg)
				if err != nil {
					t.Fatalf("%s: %v", list[i].Name, err)
				}
				if got != list[i].Output && !*update {
					t.Errorf("%s\nwant:\n%s\ngot:\n%s", list[i].Name, list[i].Output, got)
				}
				list[i].Output = got
			}
			if *update {
				if err := os.WriteFile(file, []byte(domaintest.Format(list)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for _, input := range []string{"10:00 a start", "10:00:00 a", "10:00:00 a start by", "10:00:00 a start colour=red", "until noon", "10:00:00 a start epoch=x"} {
		if out, err := domaintest.Run(domaintest.Scenario{Input: input}, lifecycle.Registry()); err == nil {
			t.Errorf("%q: want an error, got %q", input, out)
		}
	}
	if _, err := domaintest.Parse("10:00:00 a start\n"); err == nil {
		t.Error("a step before any scenario: want an error")
	}
}
