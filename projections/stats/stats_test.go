package stats_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/transitions"
)

type fleet struct {
	seq uint64
	d   *distribution.View
	tr  *transitions.View
	r   *readytime.View
}

func newFleet() *fleet {
	reg := projectiontest.Registry()
	return &fleet{d: distribution.New(1, reg), tr: transitions.New(1), r: readytime.New(1, reg)}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// apply applies one event of an account, seconds after noon.
func (f *fleet) apply(account uint32, seconds int, from, trigger, to string, outcome domain.Outcome, code string) {
	f.seq++
	e := &domain.Event{
		Kind: domain.KindSession, Trigger: trigger, Outcome: outcome, From: from, To: to,
		At: noon.Add(time.Duration(seconds) * time.Second).UnixNano(), Reason: domain.Reason{Code: code},
	}
	if from == "IDLE" {
		e.Machine, e.Initial = "whatsapp@2", "IDLE"
	}
	for _, v := range []projections.View{f.d, f.tr, f.r} {
		v.Apply(projections.Place{Seq: f.seq, Account: account}, e)
	}
}

// TestShape holds the object to the documented one, to the letter.
func TestShape(t *testing.T) {
	f := newFleet()
	for account := range uint32(4) {
		f.apply(account, 0, "IDLE", "start", "CONNECTING", domain.Applied, "")
	}
	f.apply(0, 20, "CONNECTING", "connection_ready", "RUNNING", domain.Applied, "")
	f.apply(1, 30, "CONNECTING", "connection_ready", "RUNNING", domain.Applied, "")
	f.apply(1, 40, "RUNNING", "qr_scanned", "RUNNING", domain.Noop, "")
	f.apply(2, 50, "CONNECTING", "logout", "LOGGED_OUT", domain.Applied, "401")
	f.apply(0, 60, "RUNNING", "connection_lost", "DISCONNECTED", domain.Applied, "515")
	f.apply(0, 62, "DISCONNECTED", "probe_ok", "DISCONNECTED", domain.Rejected, "")

	got, err := json.Marshal(stats.Of(map[int]uint64{0: f.seq}, f.d, f.tr, f.r, noon.Add(90*time.Second).UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(strings.Fields(`
	{"as_of":{"0":10},"accounts":4,
	 "states":{"CONNECTING":1,"DISCONNECTED":1,"LOGGED_OUT":1,"RUNNING":1},
	 "classes":{"down":1,"human":1,"ready":1,"starting":1},
	 "by_machine":{"whatsapp@2":{"CONNECTING":1,"DISCONNECTED":1,"LOGGED_OUT":1,"RUNNING":1}},
	 "transitions":{"total":8,"last_minute":2,"edges":[
	   {"from":"IDLE","trigger":"start","to":"CONNECTING","count":4},
	   {"from":"CONNECTING","trigger":"connection_ready","to":"RUNNING","count":2},
	   {"from":"CONNECTING","trigger":"logout","to":"LOGGED_OUT","count":1},
	   {"from":"RUNNING","trigger":"connection_lost","to":"DISCONNECTED","count":1}]},
	 "logged_out":{"total":1,"by_reason":{"401":1}},
	 "outcomes":{"applied":8,"noop":1,"rejected":1,"stale":0},
	 "time_to_running":{
	   "onboarding":{"reached":2,"abandoned":1,"open":1,"mean_s":25,"median_s":30,"p90_s":null,"p99_s":null,"median_ci_s":[20,null]},
	   "recovery":{"reached":0,"abandoned":0,"open":1,"mean_s":null,"median_s":null,"p90_s":null,"p99_s":null,"median_ci_s":[null,null]}}}`), "")
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAnEmptyFleet(t *testing.T) {
	f := newFleet()
	got, err := json.Marshal(stats.Of(map[int]uint64{0: 0}, f.d, f.tr, f.r, noon.UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ReplaceAll(string(got), "_s\":null", ""), "\":null") {
		t.Errorf("a count is null: %s", got)
	}
}
