package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

// storedHistory judges a trace into the event streams of a server and returns its URL.
func storedHistory(t *testing.T) string {
	t.Helper()
	srv := natstest.Run(t, natstest.Listen)
	log, err := natslog.Open(t.Context(), srv.Conn(t), natslog.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	judge := domain.NewJudge(lifecycle.Registry())
	accounts, last := map[domain.AccountID]*domain.Account{}, map[string]uint64{}
	for i, line := range []string{
		`{"account":"a","trigger":"start","by":"user","at":"2026-01-01T10:00:00Z"}`,
		`{"account":"a","trigger":"qr_received","source":"waha-1","at":"2026-01-01T10:00:01Z"}`,
		`{"account":"b","trigger":"qr_scanned","source":"waha-2","at":"2026-01-01T10:00:02Z"}`,
		`{"account":"a","trigger":"connection_ready","source":"waha-1","at":"2026-01-01T10:00:03.5Z"}`,
		`{"account":"a","trigger":"message_sent","key":"m-1","source":"waha-1","at":"2026-01-01T10:00:04Z"}`,
	} {
		tr, err := domain.ParseTrigger([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		d := judge.Decide(accounts[tr.Account], &tr, tr.At)
		rec, err := codec.Encode(d.Event)
		if err != nil {
			t.Fatal(err)
		}
		accounts[tr.Account] = domain.Evolve(accounts[tr.Account], d.Event)
		id := string(tr.Account)
		if r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: id, Expect: last[id], Data: rec}})[0]; r.Err != nil {
			t.Fatal(i, r.Err)
		}
		last[id] = uint64(i + 1)
	}
	return srv.URL()
}

func TestTailPrintsWhatHappened(t *testing.T) {
	url := storedHistory(t)
	lines := []string{
		"[2026-01-01T10:00:00.000Z] a: IDLE -> CONNECTING via start",
		"[2026-01-01T10:00:01.000Z] a: CONNECTING -> QR_REQUIRED via qr_received",
		"[2026-01-01T10:00:02.000Z] b: IDLE -x qr_scanned (rejected: no edge)",
		"[2026-01-01T10:00:03.500Z] a: QR_REQUIRED -> RUNNING via connection_ready",
		"[2026-01-01T10:00:04.000Z] a/m-1: NEW -> SENT via message_sent",
	}
	for _, tt := range []struct {
		args string
		want []int // of lines
	}{
		{"--since 1 -n 5", []int{0, 1, 2, 3, 4}},
		{"--since 4 -n 2", []int{3, 4}},
		{`--since {"0":3} -n 2`, []int{3, 4}},
		{"--since 1h -n 5", []int{0, 1, 2, 3, 4}},
		{"--since 2026-01-01T00:00:00Z -n 5", []int{0, 1, 2, 3, 4}},
		{"--since 1 -n 1 --account b", []int{2}},
		{"--since 1 -n 1 --outcome Rejected", []int{2}},
		{"--since 1 -n 2 --trigger start,message_sent", []int{0, 4}},
		{"--since 1 -n 2 --state running --state QR_REQUIRED", []int{1, 3}},
		{"--since 1 -n 1 --source waha-2", []int{2}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			r := muster(t, append(strings.Fields("tail --server "+url), strings.Fields(tt.args)...)...)
			r.want(t, 0, "")
			want := ""
			for _, i := range tt.want {
				want += lines[i] + "\n"
			}
			if r.out != want {
				t.Errorf("got\n%swant\n%s", r.out, want)
			}
		})
	}
	r := muster(t, "tail", "--server", url, "--since", "3", "-n", "1", "-o", "jsonl")
	r.want(t, 0, "")
	if !strings.HasPrefix(r.out, `{"account":"b","partition":0,"version":1,"seq":3,"at":"2026-01-01T10:00:02Z",`) || strings.Count(r.out, "\n") != 1 {
		t.Error(r.out)
	}
}

func TestTailUsage(t *testing.T) {
	for args, want := range map[string]string{
		"tail --outcome invalid": `--outcome is "invalid"; it is one of applied, noop, stale, rejected`,
		"tail --since yesterday": `--since is "yesterday"; it is a duration such as 5m`,
		"tail --since -5m":       `--since is "-5m"`,
		"tail -n -1":             "--count is -1",
		"tail acct-1":            "muster tail takes no argument",
	} {
		muster(t, strings.Fields(args)...).want(t, 2, want)
	}
	muster(t, "tail", "--server", "nats://127.0.0.1:1").want(t, 6, "is `muster serve` running there?")
	muster(t, "tail", "--server", natstest.Run(t, natstest.Listen).URL()).want(t, 3, "the server has no stream MUSTER_EV_00")
}

// watched is an output that tells when something was written to it.
type watched struct {
	text  bytes.Buffer
	wrote chan struct{}
	fail  error
}

func (w *watched) Write(p []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	defer close(w.wrote)
	return w.text.Write(p)
}

func TestTailEndsWell(t *testing.T) {
	url := storedHistory(t)
	tail := func(ctx context.Context, out io.Writer, args ...string) result {
		var stderr bytes.Buffer
		code := run(ctx, streams{in: strings.NewReader(""), out: out, err: &stderr}, append([]string{"tail", "--server", url}, args...))
		return result{code: code, err: stderr.String()}
	}
	ctx, interrupt := context.WithTimeout(t.Context(), 30*time.Second)
	defer interrupt()
	out := &watched{wrote: make(chan struct{})}
	go func() { <-out.wrote; interrupt() }()
	tail(ctx, out, "--since", "5").want(t, 0, "")
	if !strings.Contains(out.text.String(), "message_sent") {
		t.Error(out.text.String())
	}
	tail(t.Context(), &watched{fail: syscall.EPIPE}, "--since", "1").want(t, 0, "")
	tail(t.Context(), &watched{fail: syscall.ENOSPC}, "--since", "1").want(t, 1, "no space left")
}
