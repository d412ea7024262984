package alert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
)

func TestALogoutIsToldAtOnce(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.up("a")
		f.say("a", "logout", code("401"))
		f.pass(6 * time.Second)
		f.wantTold("attention.opened login_needed a")
		d := f.recv.got()[0].msg.Data
		if d.Account != "a" || d.Source != "waha-1" || d.Reason != "401" || !slices.Equal(d.Kinds, []string{"login_needed"}) || d.Why == "" || d.Do == "" || d.Since == "" {
			t.Errorf("the alert says %+v", d)
		}
		f.say("a", "start")
		f.pass(time.Second)
		f.wantTold("attention.opened login_needed a", "attention.closed login_needed a")
	})
}

func TestALossThatHealsIsNotTold(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.up("heals", "stays")
		for _, a := range []string{"heals", "stays"} {
			f.say(a, "connection_replaced")
		}
		f.pass(2*time.Minute + 59*time.Second)
		f.say("heals", "connection_ready")
		f.say("heals", "stop", func(t *domain.Trigger) { t.By = domain.ByUser }) // ends replaced, too
		f.pass(time.Minute)
		f.wantTold("attention.opened replaced stays")
		if healed := f.counts().Healed; healed != 1 {
			t.Errorf("%d needs healed, want 1", healed)
		}
	})
}

func TestABanIsToldAtOnce(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.up("a")
		f.say("a", "banned")
		f.pass(6 * time.Second)
		f.wantTold("attention.opened banned a")
	})
}

func TestFiveThousandLogoutsInAMinuteAreOneIncident(t *testing.T) {
	const accounts = 5000
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		ids := make([]string, accounts)
		for i := range ids {
			ids[i] = fmt.Sprintf("acct-%04d", i)
		}
		f.up(ids...)
		for i, id := range ids {
			if i%100 == 99 {
				<-time.After(59 * time.Second / 50)
			}
			f.say(id, "logout", code("401"))
		}
		f.pass(5 * time.Minute)
		f.wantTold("incident.opened login_needed")
		d := f.recv.got()[0].msg.Data
		if d.Counts.Accounts != accounts || d.Counts.Open != accounts || !slices.Equal(d.Accounts, ids[:named]) || d.Source != "waha-1" || d.Reason != "401" {
			t.Errorf("the incident says %+v of %+v", d, d.Counts)
		}
		for _, id := range ids {
			f.say(id, "start")
		}
		f.pass(2 * time.Minute)
		f.wantTold("incident.opened login_needed", "incident.closed login_needed")
		if d := f.recv.got()[1].msg.Data; d.Counts.Accounts != accounts || d.Counts.Open != 0 || d.Ended == "" {
			t.Errorf("its end says %+v of %+v", d, d.Counts)
		}
	})
}

func TestFewAreToldOneByOneAndMoreFollowAsAnIncident(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.up("a", "b", "c", "d", "e", "other")
		f.say("a", "logout", code("401"))
		f.say("b", "logout", code("401"))
		f.say("other", "logout", code("403")) // another reason is another matter
		f.pass(10 * time.Second)
		f.say("c", "logout", code("401"))
		f.say("d", "logout", code("401"))
		f.pass(10 * time.Second)
		f.say("e", "logout", code("401")) // belongs to what was told
		f.pass(10 * time.Second)
		got := f.recv.told()
		slices.Sort(got)
		want := []string{"attention.opened login_needed a", "attention.opened login_needed b", "attention.opened login_needed other", "incident.opened login_needed"}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if d := f.recv.got()[3].msg.Data; d.Counts.Accounts != 4 {
			t.Errorf("the incident counts %d accounts, want 4", d.Counts.Accounts)
		}
	})
}

func TestEndpointsAreToldWhatTheyWant(t *testing.T) {
	bans, eu, many := endpoint(t, "bans"), endpoint(t, "eu"), endpoint(t, "many")
	bans.Kinds, eu.Labels, many.Min = []string{"banned"}, map[string]string{"pool": "eu"}, 2
	inFleet(t, Settings{Endpoints: []Endpoint{bans, eu, many}}, func(f *fleet) {
		f.say("a", "adopt", func(t *domain.Trigger) {
			t.Data, t.Labels = domain.Data{"state": "RUNNING"}, map[string]string{"pool": "eu"}
		})
		f.up("b", "c")
		f.say("a", "logout")
		f.say("b", "banned")
		f.pass(10 * time.Second)
		f.say("c", "logout")
		f.pass(10 * time.Second)
		var got []string
		for _, one := range f.recv.got() {
			got = append(got, fmt.Sprint(one.Endpoint, " ", one.Type, " ", one.Account))
		}
		slices.Sort(got)
		want := []string{"bans attention.opened b", "eu attention.opened a", "many incident.opened "}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// down answers nothing until a time.
func down(until time.Time) func(context.Context, *Endpoint, *Delivery, int) Result {
	return func(context.Context, *Endpoint, *Delivery, int) Result {
		if time.Now().Before(until) {
			return Result{Err: "connection refused"}
		}
		return Result{Code: 200}
	}
}

func TestAReceiverThatIsDownForTenMinutes(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.recv.answer = down(time.Now().Add(10 * time.Minute))
		var want int
		for i := range 20 {
			id := fmt.Sprint("acct-", i)
			f.up(id)
			f.say(id, "logout", code(id)) // reasons of their own: no incident
			f.pass(10 * time.Second)
			f.say(id, "start")
			f.say(id, "connection_ready")
			want += 2
		}
		f.pass(10 * time.Minute)
		f.pass(time.Hour)
		if got := len(f.recv.got()); got != want {
			t.Errorf("%d alerts were taken, want %d", got, want)
		}
		if failed := f.counts().Failed; failed < 60 || failed > 200 {
			t.Errorf("%d tries failed; the pauses do not grow as they should", failed)
		}
	})
}

func TestAReceiverThatFailsHalfTheTime(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		luck := rand.New(rand.NewPCG(1, 2))
		f.recv.answer = func(_ context.Context, _ *Endpoint, _ *Delivery, nth int) Result {
			f.recv.mu.Lock()
			defer f.recv.mu.Unlock()
			if luck.IntN(2) == 0 && nth <= len(waits) { // the last one gets through, or it would be dead
				return Result{Code: 500, Err: "500 Internal Server Error"}
			}
			return Result{Code: 200}
		}
		var want int
		for round := range 5 {
			for i := range 30 {
				id := fmt.Sprint("acct-", i)
				if round == 0 {
					f.up(id)
				}
				f.say(id, "logout", code(id))
			}
			f.pass(time.Minute)
			for i := range 30 {
				id := fmt.Sprint("acct-", i)
				f.say(id, "start")
				f.say(id, "connection_ready")
				want += 2
			}
			f.pass(2 * time.Minute)
		}
		f.pass(48 * time.Hour)
		if got := len(f.recv.got()); got != want {
			t.Errorf("%d alerts were taken, want %d", got, want)
		}
	})
}

func TestAReceiverThatHangsHoldsNobodyElse(t *testing.T) {
	hangs, well := endpoint(t, "hangs"), endpoint(t, "well")
	inFleet(t, Settings{Endpoints: []Endpoint{hangs, well}}, func(f *fleet) {
		begin := time.Now()
		f.recv.answer = func(ctx context.Context, e *Endpoint, _ *Delivery, _ int) Result {
			if e.Name == "hangs" && time.Since(begin) < 10*time.Minute {
				<-ctx.Done()
				return Result{Err: "no answer within 15s"}
			}
			return Result{Code: 200}
		}
		const n = 40
		for i := range n {
			id := fmt.Sprint("acct-", i)
			f.up(id)
			at := time.Now()
			f.say(id, "logout", code(id))
			if took := time.Since(at); took != 0 {
				t.Fatalf("a verdict took %v", took)
			}
		}
		f.pass(6 * time.Second)
		if got := len(f.recv.got()); got != n {
			t.Errorf("the other receiver has %d alerts after 6 s, want %d", got, n)
		}
		f.pass(2 * time.Hour)
		if got := len(f.recv.got()); got != 2*n {
			t.Errorf("%d alerts were taken in the end, want %d", got, 2*n)
		}
		for _, one := range f.recv.tries {
			if one.took > tryWithin {
				t.Errorf("a try took %v", one.took)
			}
		}
	})
}

func TestAlertsOutliveTheProcess(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.recv.answer = down(time.Now().Add(time.Minute))
		f.up("told", "waits", "heals", "away")
		f.say("told", "logout", code("1"))
		f.pass(10 * time.Second)
		f.say("waits", "connection_replaced")
		f.say("heals", "connection_replaced", from("waha-2"))
		f.pass(10 * time.Second)
		ids := map[string]bool{}
		for _, one := range f.recv.tries {
			ids[one.ID] = true
		}
		f.halt()
		f.say("away", "logout", code("2")) // while no alerts are made
		f.say("heals", "stop", func(t *domain.Trigger) { t.By = domain.ByUser })
		f.pass(time.Hour)
		f.start()
		f.pass(time.Hour)
		got := f.recv.told()
		slices.Sort(got)
		want := []string{"attention.opened login_needed away", "attention.opened login_needed told", "attention.opened replaced waits"}
		for _, one := range f.recv.got() {
			if one.Account == "told" && !ids[one.ID] {
				t.Errorf("the alert came under another id than before")
			}
		}
		// "waits" is stuck by now, too.
		got = slices.DeleteFunc(got, func(s string) bool { return s == "attention.opened stuck waits" })
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestWhatStoodBeforeIsNotTold(t *testing.T) {
	conf := Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}
	inFleet(t, Settings{}, func(f *fleet) {
		f.up("old", "new")
		f.say("old", "logout")
		f.pass(time.Minute)
		f.halt()
		f.conf = conf
		f.start()
		f.pass(time.Minute)
		f.say("old", "user_action_needed", func(t *domain.Trigger) { t.Data = domain.Data{"action": ""} }) // looks at it again
		f.say("new", "logout")
		f.pass(time.Minute)
		f.wantTold("attention.opened login_needed new")
		f.say("old", "start")
		f.say("old", "logout")
		f.pass(time.Minute)
		f.wantTold("attention.opened login_needed new", "attention.opened login_needed old")

		f.halt() // off, and on again
		f.conf = Settings{}
		f.start()
		f.say("new", "start")
		f.say("new", "logout")
		f.halt()
		f.conf = conf
		f.start()
		f.pass(time.Hour)
		f.wantTold("attention.opened login_needed new", "attention.opened login_needed old")
	})
}

func TestWhatIsMutedIsToldWhenTheMuteEnds(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.up("a", "b", "c")
		f.actions.append(operator.Action{Action: operator.Mute, By: "kim", Target: map[string]string{"source": "waha-1"}, Until: time.Now().Add(time.Hour)})
		f.pass(time.Second)
		f.say("a", "logout", code("1"))
		f.say("b", "logout", code("2"))
		f.pass(30 * time.Minute)
		f.say("a", "start")
		f.wantTold()
		if muted := f.counts().Muted; muted != 2 {
			t.Errorf("%d were muted, want 2", muted)
		}
		f.pass(29 * time.Minute)
		f.wantTold()
		f.pass(2 * time.Minute)
		want := []string{"attention.opened stuck a", "attention.opened login_needed b"}
		got := f.recv.told()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		f.actions.append(operator.Action{Action: operator.Mute, By: "kim", Target: map[string]string{"account": "c"}})
		f.pass(time.Second)
		f.say("c", "banned")
		f.pass(time.Hour)
		n := len(f.recv.got())
		f.actions.append(operator.Action{Action: operator.Unmute, By: "kim", Target: map[string]string{"account": "c"}})
		f.pass(10 * time.Second)
		if got := f.recv.told(); len(got) <= n || !slices.Contains(got[n:], "attention.opened banned c") {
			t.Errorf("after the unmute %q was told", got[n:])
		}
	})
}

// A need that began a group and was held back is told when the mute ends, though
// the others of its group were told long ago.
func TestWhatWasHeldBackFromAnIncidentIsToldLater(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		ids := []string{"a", "b", "c", "d", "e"}
		f.up(ids...)
		f.actions.append(operator.Action{Action: operator.Mute, By: "kim", Target: map[string]string{"account": "a"}, Until: time.Now().Add(time.Hour)})
		f.pass(time.Second)
		for _, id := range ids {
			f.say(id, "logout", code("401"))
		}
		f.pass(30 * time.Minute)
		f.wantTold("incident.opened login_needed")
		f.pass(31 * time.Minute)
		f.wantTold("incident.opened login_needed", "attention.opened login_needed a")
	})
}

func TestWhatIsAcknowledgedIsNotRemindedOf(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}, Remind: time.Hour}, func(f *fleet) {
		f.up("a", "b")
		f.say("a", "logout", code("1"))
		f.say("b", "logout", code("2"))
		f.pass(10 * time.Second)
		f.actions.append(operator.Action{Action: operator.Ack, By: "kim", Target: map[string]string{"account": "b"}})
		f.pass(2*time.Hour + time.Minute)
		got := f.recv.told()
		slices.Sort(got)
		want := []string{
			"attention.opened login_needed a", "attention.opened login_needed b",
			"attention.reminder login_needed a", "attention.reminder login_needed a",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestDeadLettersCanBeSentAgain(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.recv.answer = func(_ context.Context, _ *Endpoint, _ *Delivery, nth int) Result {
			if nth <= len(waits)+1 {
				return Result{Code: 503, Err: "503 Service Unavailable"}
			}
			return Result{Code: 200}
		}
		f.up("a")
		f.say("a", "logout")
		f.pass(6 * time.Second)
		f.say("a", "start")
		f.say("a", "connection_ready")
		f.pass(48 * time.Hour)
		dead, err := f.engine.Deliveries(context.Background(), Filter{Status: Dead})
		if err != nil || len(dead) != 2 || dead[1].Attempts != len(waits)+1 || dead[1].Code != 503 {
			t.Fatalf("dead are %+v, %v; want both after %d tries", dead, err, len(waits)+1)
		}
		if first, second := f.recv.tries[len(waits)], f.recv.tries[len(waits)+1]; first.Account != "a" || first.Type != AttentionOpened || second.Type != AttentionClosed {
			t.Errorf("the later alert was not held back until the earlier one was dead")
		}
		n, err := f.engine.ResendDead(context.Background(), "ops")
		if err != nil || n != 2 {
			t.Fatalf("%d are sent again, %v; want 2", n, err)
		}
		f.pass(time.Second)
		f.wantTold("attention.opened login_needed a", "attention.closed login_needed a")
		if err := f.engine.Resend(context.Background(), "alert_nosuch"); err == nil {
			t.Error("a delivery that is not there was sent again")
		}
	})
}

func TestAnEndpointThatIsGoneIsDisabled(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		gone := true
		f.recv.answer = func(context.Context, *Endpoint, *Delivery, int) Result {
			if gone {
				return Result{Code: http.StatusGone, Err: "410 Gone"}
			}
			return Result{Code: 200}
		}
		f.up("a", "b", "c")
		f.say("a", "logout", code("1"))
		f.pass(10 * time.Second)
		f.say("b", "logout", code("2"))
		f.pass(time.Hour)
		if len(f.recv.tries) != 1 {
			t.Errorf("%d tries were made at an endpoint that is gone, want 1", len(f.recv.tries))
		}
		gone = false
		if _, err := f.engine.Test(context.Background(), "ops", "1"); err != nil {
			t.Fatal(err)
		}
		f.pass(time.Second)
		f.say("c", "logout", code("3"))
		f.pass(10 * time.Second)
		f.wantTold("test", "attention.opened login_needed c")
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	inFleet(t, Settings{Endpoints: []Endpoint{endpoint(t, "ops")}}, func(f *fleet) {
		f.recv.answer = func(_ context.Context, _ *Endpoint, _ *Delivery, nth int) Result {
			if nth == 1 {
				return Result{Code: 429, Err: "429 Too Many Requests", RetryAfter: 17 * time.Minute}
			}
			return Result{Code: 200}
		}
		f.up("a")
		f.say("a", "logout")
		f.pass(time.Hour)
		if apart := f.recv.tries[1].at.Sub(f.recv.tries[0].at); apart != 17*time.Minute {
			t.Errorf("the second try came %v after the first, want 17m", apart)
		}
	})
}
