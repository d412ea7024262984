package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run of the program left behind.
type result struct {
	code     int
	out, err string
}

// muster runs the program in this process.
func muster(t *testing.T, args ...string) result {
	t.Helper()
	return musterWith(t, "", args...)
}

// musterWith runs the program with something on stdin.
func musterWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := run(context.WithoutCancel(t.Context()), streams{in: strings.NewReader(stdin), out: &out, err: &err}, args)
	return result{code: code, out: out.String(), err: err.String()}
}

// want checks the exit code and that stderr holds a text ("" = stderr is empty).
func (r result) want(t *testing.T, code int, onErr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stderr: %s", r.code, code, r.err)
	}
	if onErr == "" && r.err != "" {
		t.Errorf("stderr is %q, want nothing", r.err)
	}
	if !strings.Contains(r.err, onErr) {
		t.Errorf("stderr is %q, want %q in it", r.err, onErr)
	}
}

// digests are left out of golden files: they have tests of their own.
var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// golden compares stdout with a file of testdata.
func (r result) golden(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	r.out = digests.ReplaceAllString(r.out, "sha256:<digest>")
	if *update {
		if err := os.WriteFile(path, []byte(r.out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.out != string(want) {
		t.Errorf("stdout differs from %s (-update writes it anew):\n%s\nwant\n%s", path, r.out, want)
	}
}

// file writes a file for one test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
