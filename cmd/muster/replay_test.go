package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// past is a history in which the two tables of whatsapp differ.
const past = `{"account":"a","trigger":"start","by":"user","at":"2026-01-01T10:00:00Z","id":"1"}
{"account":"a","trigger":"qr_received","at":"2026-01-01T10:00:05Z"}
{"account":"a","trigger":"qr_received","at":"2026-01-01T10:00:25Z"}
{"account":"a","trigger":"qr_scanned","at":"2026-01-01T10:00:30Z"}
{"account":"a","trigger":"sync_completed","at":"2026-01-01T10:00:40Z"}
{"account":"b","trigger":"start","at":"2026-01-01T11:00:00Z"}
{"account":"b","trigger":"connection_ready","at":"2026-01-01T11:00:05Z"}
`

// archivedPast imports a past, archives it, and returns the data folder, the
// archive and the digest.
func archivedPast(t *testing.T, trace string) (data, archive, digest string) {
	t.Helper()
	dir := t.TempDir()
	data, archive = filepath.Join(dir, "data"), filepath.Join(dir, "archive")
	r := musterWith(t, trace, "import", "-", "--data", data, "--partitions", "2", "-o", "json")
	r.want(t, 0, "")
	var res struct {
		Accounts, Events, Appended, Present int
		Digest                              string
	}
	if err := json.Unmarshal([]byte(r.out), &res); err != nil || res.Appended != res.Events || res.Present != 0 || res.Events == 0 {
		t.Fatalf("%v: %s", err, r.out)
	}
	if r := muster(t, "archive", "--data", data, "--out", archive); r.code != 0 {
		t.Fatalf("archive: %+v", r)
	}
	return data, archive, res.Digest
}

func TestReplayCommand(t *testing.T) {
	_, archive, digest := archivedPast(t, past)
	var res map[string]any
	r := muster(t, "replay", archive, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &res); err != nil || r.code != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, field := range []string{"as_of", "accounts", "states", "classes", "by_machine", "transitions", "logged_out", "outcomes", "time_to_running", "digest", "events", "elapsed_s", "events_per_s"} {
		if _, ok := res[field]; !ok {
			t.Errorf("%q is missing", field)
		}
	}
	if res["digest"] != digest || res["accounts"] != 2.0 || res["events"] != 7.0 {
		t.Errorf("digest %v, %v accounts, %v events; want %s, 2, 7", res["digest"], res["accounts"], res["events"], digest)
	}
	for args, want := range map[string]string{
		"--until 2026-01-01T10:00:26Z": `"states":{"QR_REQUIRED":1}`,
		"--account b":                  `"states":{"RUNNING":1}`,
	} {
		r := muster(t, append([]string{"replay", archive, "-o", "json"}, strings.Fields(args)...)...)
		var flat bytes.Buffer
		if err := json.Compact(&flat, []byte(r.out)); err != nil || !strings.Contains(flat.String(), want) {
			t.Errorf("%s: %v, %s; want %s", args, err, r.out, want)
		}
	}
	if r := muster(t, "replay", archive); r.code != 0 || !strings.Contains(r.out, digest) || !strings.Contains(r.out, "events/s") {
		t.Errorf("as a table: %+v", r)
	}
	muster(t, "replay", archive, "--account", "nobody").want(t, 3, `the archive has no account "nobody"`)
}

func TestReplayUnderAnotherTable(t *testing.T) {
	_, archive, _ := archivedPast(t, past)
	r := muster(t, "replay", archive, "--machine", "whatsapp@1", "-o", "json")
	var res struct {
		Accounts, Triggers, Differ int
		Examples                   []struct{ Line string }
		Finals                     []struct{ Was, Would string }
	}
	if err := json.Unmarshal([]byte(r.out), &res); err != nil || r.code != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	// The second qr_received, and b's connection_ready from CONNECTING.
	if res.Accounts != 2 || res.Triggers != 7 || res.Differ != 2 || len(res.Finals) != 1 || res.Finals[0].Was != "RUNNING" || res.Finals[0].Would != "CONNECTING" {
		t.Errorf("%+v", res)
	}
	if len(res.Examples) != 2 || !strings.Contains(res.Examples[0].Line, `"trigger":"qr_received"`) && !strings.Contains(res.Examples[1].Line, `"trigger":"qr_received"`) {
		t.Errorf("examples: %+v", res.Examples)
	}
	if r := muster(t, "replay", archive, "--machine", "whatsapp@1"); r.code != 0 || !strings.Contains(r.out, "2 of 7 triggers of 2 accounts would be judged otherwise under whatsapp@1") {
		t.Errorf("as a table: %+v", r)
	}
	shop := file(t, "shop.yaml", tinyMachine)
	if r := muster(t, "replay", archive, "--machine", shop, "-o", "json"); r.code != 0 || !strings.Contains(r.out, `"OPEN"`) {
		t.Errorf("under a machine of a file: %+v", r)
	}
	muster(t, "replay", archive, "--machine", "whatsap@1").want(t, 2, "did you mean whatsapp@1?")
}

func TestReplayWrongUse(t *testing.T) {
	_, archive, _ := archivedPast(t, past)
	muster(t, "replay").want(t, 2, "muster replay takes ARCHIVE; 0 given")
	muster(t, "replay", "/nosuch").want(t, 3, "/nosuch")
	muster(t, "replay", archive, "--until", "noon").want(t, 2, `--until is "noon"`)
	muster(t, "replay", archive, "--until", "7=1").want(t, 2, `--until is "7=1"`)
	segments, err := filepath.Glob(filepath.Join(archive, "*", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%v, %v", segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	muster(t, "replay", archive).want(t, 1, filepath.Base(segments[0]))
}

func TestImportAndExport(t *testing.T) {
	data, archive, digest := archivedPast(t, past)
	r := musterWith(t, past, "import", "-", "--data", data, "-o", "json")
	if r.code != 0 || !strings.Contains(r.out, `"appended": 0`) || !strings.Contains(r.out, digest) {
		t.Errorf("again: %+v", r)
	}
	musterWith(t, strings.ReplaceAll(past, "qr_scanned", "stop"), "import", "-", "--data", data).want(t, 4, "these accounts have a history already: a")
	for _, from := range [][]string{{archive}, {"--data", data}} {
		r := muster(t, append([]string{"export"}, from...)...)
		if r.code != 0 || strings.Count(r.out, "\n") != 7 {
			t.Fatalf("export: %+v", r)
		}
		again := musterWith(t, r.out, "import", "-", "--data", filepath.Join(t.TempDir(), "new"), "-o", "json")
		if again.code != 0 || !strings.Contains(again.out, digest) {
			t.Errorf("imported again: %+v; want digest %s", again, digest)
		}
		if try := musterWith(t, r.out, "try", "-", "-o", "json"); !strings.Contains(try.out, digest) {
			t.Errorf("try of it gives another digest than %s", digest)
		}
	}
	out := filepath.Join(t.TempDir(), "fleet.parquet")
	muster(t, "export", archive, "-o", "parquet", "--out", out).want(t, 0, "7 events in "+out)
	if b, err := os.ReadFile(out); err != nil || !strings.HasPrefix(string(b), "PAR1") {
		t.Errorf("%v, no Parquet file", err)
	}
	if r := muster(t, "export", archive, "-o", "csv", "--account", "b", "--trigger", "start"); r.code != 0 || strings.Count(r.out, "\n") != 2 {
		t.Errorf("one account's starts as CSV: %+v", r)
	}
	if r := muster(t, "export", archive, "-o", "ocel"); r.code != 0 || !strings.HasPrefix(r.out, `{"events":[`) {
		t.Errorf("as OCEL: %+v", r)
	}
}

func TestImportAndExportWrongUse(t *testing.T) {
	musterWith(t, past, "import", "-").want(t, 2, "--data is missing")
	musterWith(t, past, "import", "-", "--data", t.TempDir(), "--machine", "whatsap@1").want(t, 2, "did you mean whatsapp@1?")
	musterWith(t, past, "import", "-", "--data", t.TempDir(), "--mode", "watch").want(t, 2, "--mode is")
	muster(t, "export", "/nosuch").want(t, 3, "/nosuch")
	muster(t, "export", "/nosuch", "-o", "xml").want(t, 2, "it is one of jsonl, said, csv, parquet, ocel")
	muster(t, "export", "/nosuch", "--label", "pool").want(t, 2, "it is key=value")
	muster(t, "export", "/nosuch", "--from", "noon").want(t, 2, `--from is "noon"`)
	muster(t, "export", "/nosuch", "--data", "x").want(t, 2, "give one")
}
