package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/natslog"
)

// told is a fleet's history as text, up to a length of virtual time.
func told(t *testing.T, cfg Config, within time.Duration) string {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for item := range f.Items(within) {
		if item.Signal != NoSignal {
			b = append(b, fmt.Sprintln(item.Virtual, item.Signal, item.Worker)...)
			continue
		}
		b = append(item.Trigger.AppendJSON(b), '\n')
	}
	return string(b)
}

func TestTheSameSeedGivesTheSameFleet(t *testing.T) {
	for _, name := range ProfileNames() {
		p, err := ProfileNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Accounts: 25, Seed: 7, Profile: p, IDs: "x-"}
		one, two := told(t, cfg, time.Hour), told(t, cfg, time.Hour)
		if one != two || len(one) < 4000 {
			t.Errorf("%s: two runs of one seed differ, or there are only %d bytes", name, len(one))
		}
		cfg.Seed = 8
		if told(t, cfg, time.Hour) == one {
			t.Errorf("%s: another seed gives the same", name)
		}
	}
}

// Time never runs backwards, every trigger is one that Muster takes, and times
// of deliveries that come again are the old ones.
func TestEveryTriggerIsWellFormedAndInOrder(t *testing.T) {
	f, err := New(Config{Accounts: 100, Seed: 1, Profile: profiles["storm"], IDs: "x-"})
	if err != nil {
		t.Fatal(err)
	}
	last, ids, twice := int64(0), map[string]bool{}, 0
	for item := range f.Items(4 * time.Hour) {
		if item.Virtual < last {
			t.Fatalf("the clock runs back from %d to %d", last, item.Virtual)
		}
		last = item.Virtual
		if item.Signal != NoSignal {
			continue
		}
		line := string(item.Trigger.AppendJSON(nil))
		if _, err := domain.ParseTrigger([]byte(line)); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if ids[item.Trigger.ID] {
			twice++
		}
		ids[item.Trigger.ID] = true
	}
	if twice == 0 {
		t.Error("no delivery came twice")
	}
}

// A day of a fleet has everything that a real one has, and next to nothing
// that a table refuses.
func TestADayOfAFleet(t *testing.T) {
	p := profiles["realistic"]
	p.Message, p.Customer, p.Episode, p.Outdated = 30*time.Minute, 40*time.Minute, 10*time.Minute, 10*time.Hour // less talk
	j, err := NewJudged(Config{Accounts: 150, Seed: 3, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	begin := j.Now()
	seen, own, n, version := map[string]int{}, map[string]int{}, 0, map[domain.AccountID]uint64{}
	for e := range j.Events() {
		n++
		if version[e.Account]++; e.Version != version[e.Account] {
			t.Fatalf("%s has version %d after %d events", e.Account, e.Version, version[e.Account])
		}
		seen[e.Trigger]++
		if e.Source == domain.SourceMuster {
			own[e.Trigger]++
		}
		if j.Now().Sub(begin) > 24*time.Hour {
			break
		}
	}
	counts := j.Counts()
	t.Logf("%d events: %v; of Muster's own %v", n, counts, own)
	if bad := counts[domain.Rejected] + counts[domain.Stale]; bad == 0 || bad > n/50 {
		t.Errorf("%d of %d are rejected or stale; a few belong to it, and no more than 2 %%", bad, n)
	}
	if counts[domain.Invalid] != 0 {
		t.Errorf("%d are invalid", counts[domain.Invalid])
	}
	for _, trigger := range strings.Fields(`start stop qr_received qr_scanned qr_expired handshake_restart sync_completed connection_ready
		connection_lost reconnect_success reconnect_failed probe_failed probe_ok rate_limited restricted restriction_lifted connection_replaced
		logout banned connect_refused user_action_needed login_started login_succeeded sync_started sync_advanced ticket_renewed reconnected
		online offline message_pending message_sent message_delivered message_read message_replied message_failed message_timed_out
		customer_message claim take_over human_replied hand_back end mark_stuck condition_expired settled`) {
		if seen[trigger] == 0 {
			t.Errorf("there is no %s in a day", trigger)
		}
	}
	states := map[string]int{}
	for _, a := range j.Accounts() {
		states[a.Machine+" "+a.State]++
	}
	for _, s := range []string{"whatsapp@2 RUNNING", "wecom@1 RUNNING", "instance@1 ONLINE", "whatsapp@2 LOGGED_OUT", "whatsapp@2 DISCONNECTED"} {
		if states[s] == 0 {
			t.Errorf("no account is in %s: %v", s, states)
		}
	}
	if len(j.Accounts()) != 150 {
		t.Errorf("%d accounts are known", len(j.Accounts()))
	}
}

func TestAFleetOfOneMachine(t *testing.T) {
	for _, m := range Machines() {
		j, err := NewJudged(Config{Accounts: 40, Seed: 5, Machine: m, Profile: profiles["storm"]})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e := range j.Events() {
			if n++; n == 5000 {
				break
			}
			if e.Machine != "" && e.Machine != m {
				t.Fatalf("%s is of %s", e.Account, e.Machine)
			}
		}
		if bad := j.Counts()[domain.Rejected] + j.Counts()[domain.Stale]; bad > n/10 || j.Counts()[domain.Invalid] > 0 {
			t.Errorf("%s: %v", m, j.Counts())
		}
	}
}

// A worker that dies is silent until it is back, and so are its accounts.
func TestADeadWorkerIsSilent(t *testing.T) {
	f, err := New(Config{Accounts: 60, Seed: 2, Workers: 3, Profile: profiles["storm"]})
	if err != nil {
		t.Fatal(err)
	}
	dead, died, words := map[string]bool{}, 0, map[string]int{}
	for item := range f.Items(12 * time.Hour) {
		switch {
		case item.Signal == WorkerDies:
			dead[item.Worker], words[item.Worker] = true, 0
			died++
		case item.Signal == WorkerUp:
			dead[item.Worker] = false
		case dead[item.Trigger.Source] && item.Trigger.Name != "online" && item.Trigger.Name != "offline" && item.Trigger.Epoch != 0:
			t.Fatalf("%s speaks while it is dead: %s of %s", item.Trigger.Source, item.Trigger.Name, item.Trigger.Account)
		}
	}
	if died < 5 {
		t.Errorf("in half a day of storm %d workers died", died)
	}
}

// The times of triggers are those of Stamp, in their data, too.
func TestTimesAreStamped(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	f, err := New(Config{Accounts: 100, Seed: 4, Machine: "whatsapp@2", Profile: profiles["storm"], Stamp: func(v int64) int64 { return start + (v-start)/10 }, Speed: 10})
	if err != nil {
		t.Fatal(err)
	}
	limits := 0
	for item := range f.Items(3 * time.Hour) {
		if item.Trigger.At > start+int64(3*time.Hour)/10 {
			t.Fatal(item.Trigger.At)
		}
		if item.Trigger.Name == "rate_limited" && item.Trigger.Data != nil {
			until, err := time.Parse(time.RFC3339, item.Trigger.Data["until"].(string))
			length := time.Duration(until.UnixNano() - item.Trigger.At)
			if err != nil || length < 12*time.Second || length > 3*time.Minute {
				t.Fatalf("a limit lasts %v: %v", length, err)
			}
			limits++
		}
	}
	if limits == 0 {
		t.Error("nobody was limited")
	}
}

func TestWhatCannotBePlayed(t *testing.T) {
	for want, cfg := range map[string]Config{
		"accounts is 0":        {},
		"accounts is -1":       {Accounts: -1},
		`accounts of "shop@1"`: {Accounts: 1, Machine: "shop@1"},
		"workers is 1001":      {Accounts: 1, Workers: 1001},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := ProfileNamed("wild"); err == nil || !strings.Contains(err.Error(), "calm, messages, onboarding, realistic, storm") {
		t.Error(err)
	}
	if got := slices.Sorted(maps.Keys(profiles)); !slices.Equal(got, ProfileNames()) {
		t.Error(got)
	}
}

func BenchmarkEvents(b *testing.B) {
	for _, accounts := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(accounts), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for range Events(1, accounts) {
				if n++; n > b.N {
					break
				}
			}
		})
	}
}

func BenchmarkTriggers(b *testing.B) {
	f, err := New(Config{Accounts: 10_000, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		f.Next()
	}
}

// The past that is written is a history like any other: Muster's own reader
// finds no gap in it, and every account where the judge left it.
func TestAPastIsAWholeHistory(t *testing.T) {
	play, err := NewPlay(PlayConfig{Fleet: Config{Accounts: 60, Seed: 9}, Rate: 10, Past: 20 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n, err := WriteHistory(t.Context(), dir, 2, play.Past(Planted(play.Begin())))
	if err != nil || n < 500 {
		t.Fatal(n, err)
	}
	srv, err := bus.StartServer(t.Context(), bus.ServerConfig{Dir: dir, Sync: bus.SyncInterval})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Shutdown(context.WithoutCancel(t.Context())) }()
	nc, err := srv.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := natslog.Open(t.Context(), nc, natslog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	set, err := command.NewSet(command.Config{Log: log, Judge: domain.NewJudge(lifecycle.Registry())})
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for p := range log.Partitions() {
		r, err := set.Open(t.Context(), p, nil)
		if err != nil || len(r.Damaged) > 0 || r.Missing > 0 {
			t.Fatalf("%v: %+v", err, r)
		}
		read += int(r.Replayed)
	}
	if read != n {
		t.Errorf("%d of %d events are read", read, n)
	}
	for id, want := range map[domain.AccountID]string{
		"demo-1": "RUNNING", "demo-banned": "DISCONNECTED banned", "demo-replaced": "DISCONNECTED replaced flapping", "demo-qr": "QR_REQUIRED stuck",
	} {
		a, err := set.Account(t.Context(), id)
		if err != nil || a == nil {
			t.Fatal(id, a, err)
		}
		got := a.State
		for _, c := range a.Conditions {
			got += " " + c.Name
		}
		if !slices.Equal(slices.Sorted(strings.FieldsSeq(got)), slices.Sorted(strings.FieldsSeq(want))) {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	if err := set.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
