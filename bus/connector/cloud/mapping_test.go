package cloud_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector/cloud"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
)

const (
	adopt = `adopt data={"state":"RUNNING"} at=2026-01-05T12:00:00Z; `
	at    = " at=2026-01-05T12:00:00Z"
	entry = " at=2026-01-05T12:00:30Z" // the time of the entry
)

func TestStatuses(t *testing.T) {
	for status, trigger := range map[string]string{"sent": "message_sent", "delivered": "message_delivered", "read": "message_read", "played": "message_read"} {
		body := of("statuses", `{"id":"w1","status":"`+status+`","timestamp":"1767614400","recipient_id":"77","conversation":{"id":"secret"}}`)
		id := "c1:155 [w1/" + status + "/1767614400] "
		check(t, []row{
			{"RUNNING", body, id + trigger + " key=w1" + at},
			{"DISCONNECTED", body, id + trigger + " key=w1" + at},
			{"LOGGED_OUT", body, id + trigger + " key=w1" + at},
			{"", body, id + adopt + trigger + " key=w1" + at},
			{"IDLE", body, id + adopt + trigger + " key=w1" + at},
		})
	}
}

func failedWith(errors string) string {
	return of("statuses", `{"id":"w1","status":"failed","timestamp":"1767614400","recipient_id":"77","errors":[`+errors+`]}`)
}

func TestFailures(t *testing.T) {
	const id = "c1:155 [w1/failed/1767614400] "
	more := map[string]string{
		"130429": `; rate_limited code=130429 data={"until":"2026-01-05T12:01:00Z"}` + at,
		"80007":  `; rate_limited code=80007 data={"until":"2026-01-05T12:01:00Z"}` + at,
		"4":      `; rate_limited code=4 data={"until":"2026-01-05T12:01:00Z"}` + at,
		"131048": `; rate_limited code=131048 data={"until":"2026-01-06T12:00:00Z"}` + at,
		"131056": `; restricted code=131056 data={"scope":"chat:77","until":"2026-01-05T12:01:00Z"}` + at,
		"131049": `; restricted code=131049 data={"scope":"marketing:77","until":"2026-01-06T12:00:00Z"}` + at,
		"368":    `; banned code=368` + at,
		"131031": `; banned code=131031` + at,
		"131026": "", "131047": "", "190": "", "0": "",
	}
	for code, effect := range more {
		want := "message_failed key=w1 code=" + code + at + effect
		check(t, []row{
			{"RUNNING", failedWith(`{"code":` + code + `,"title":"secret","error_data":{"details":"secret"}}`), id + want},
			{"RUNNING", failedWith(`{"code":"` + code + `"}`), id + want},
			{"", failedWith(`{"code":` + code + `}`), id + adopt + want},
		})
	}
	check(t, []row{
		{"RUNNING", failedWith(""), id + "message_failed key=w1" + at},
		{"RUNNING", failedWith(`{"title":"x"},7`), id + "message_failed key=w1" + at},
		{"RUNNING", failedWith(`{"code":131026},{"code":368}`), id + "message_failed key=w1 code=131026" + at + "; banned code=368" + at},
		// Without a recipient the whole number would be restricted.
		{"RUNNING", of("statuses", `{"id":"w1","status":"failed","timestamp":"1767614400","errors":[{"code":131056}]}`), id + "message_failed key=w1 code=131056" + at},
		// Without any time of its own, the entry's counts, for the end of a limit, too.
		{"RUNNING", of("statuses", `{"id":"w1","status":"failed","errors":[{"code":4}]}`),
			"c1:155 [w1/failed/] message_failed key=w1 code=4" + entry + `; rate_limited code=4 data={"until":"2026-01-05T12:01:30Z"}` + entry},
	})
}

func TestMessages(t *testing.T) {
	const asked = `c1:155 [msg/w1] customer_message key=77 data={"message":"w1"}` + at
	message := func(rest string) string {
		return of("messages", `{"id":"w1","from":"77","timestamp":"1767614400","text":{"body":"secret"}`+rest+`}`)
	}
	echo := change("smb_message_echoes", `{"metadata":{"display_phone_number":"155"},"message_echoes":[{"id":"w1","from":"155","to":"77","timestamp":"1767614400","text":{"body":"secret"}}]}`)
	check(t, []row{
		{"RUNNING", message(`,"type":"text"`), asked},
		{"STOPPED", message(`,"type":"image"`), asked},
		{"RUNNING", message(`,"type":"text","context":{"from":"155","id":"w0"}`), asked + "; message_replied key=w0" + at},
		{"RUNNING", message(`,"type":"text","context":{"forwarded":true}`), asked},
		{"", message(`,"type":"text"`), `c1:155 [msg/w1] ` + adopt + `customer_message key=77 data={"message":"w1"}` + at},
		{"RUNNING", echo, "c1:155 [msg/w1] human_replied key=77" + at},
		{"", echo, "c1:155 [msg/w1] " + adopt + "human_replied key=77" + at},
	})
}

var hash = regexp.MustCompile(`\[account/[0-9a-f]{32}\]`)

func TestAccountEvents(t *testing.T) {
	const adopted = `adopt data={"state":"RUNNING"}` + entry + "; "
	event := func(name, rest string) string {
		return change("account_update", `{"event":"`+name+`","phone_number":"155"`+rest+`}`)
	}
	quality := func(name string) string {
		return change("phone_number_quality_update", `{"event":"`+name+`","display_phone_number":"155","current_limit":"TIER_1K"}`)
	}
	restriction := func(kind, expiration string) string {
		return `{"restriction_type":"` + kind + `","expiration":` + expiration + `}`
	}
	for _, c := range []struct{ body, want string }{
		{event("ACCOUNT_RESTRICTION", `,"restriction_info":[`+restriction("RESTRICTED_BIZ_INITIATED_MESSAGING", "1767960000")+`,`+restriction("RESTRICTED_CUSTOMER_INITIATED_MESSAGING", `"2026-01-07T14:00:00+0000"`)+`,`+
			restriction("RESTRICTED_ADD_PHONE_NUMBER_ACTION", `"1767960000"`)+`]`),
			`restricted code=RESTRICTED_BIZ_INITIATED_MESSAGING data={"scope":"new_chats","until":"2026-01-09T12:00:00Z"}` + entry +
				`; restricted code=RESTRICTED_CUSTOMER_INITIATED_MESSAGING data={"scope":"replies","until":"2026-01-07T14:00:00Z"}` + entry +
				`; restricted code=RESTRICTED_ADD_PHONE_NUMBER_ACTION data={"scope":"add_number","until":"2026-01-09T12:00:00Z"}` + entry},
		{event("ACCOUNT_RESTRICTION", `,"restriction_info":[`+restriction("RESTRICTED_BIZ_INITIATED_MESSAGING", `"2026-01-07T15:00:00+01:00"`)+`,`+restriction("RESTRICTED_DANCING", "5")+`]`),
			`restricted code=RESTRICTED_BIZ_INITIATED_MESSAGING data={"scope":"new_chats","until":"2026-01-07T14:00:00Z"}` + entry},
		{event("ACCOUNT_RESTRICTION", `,"restriction_info":[`+restriction("RESTRICTED_BIZ_INITIATED_MESSAGING", `null`)+`]`),
			`restricted code=RESTRICTED_BIZ_INITIATED_MESSAGING data={"scope":"new_chats"}` + entry},
		{event("DISABLED_UPDATE", `,"ban_info":{"waba_ban_state":"SCHEDULE_FOR_DISABLE"}`), `user_action_needed code=SCHEDULE_FOR_DISABLE data={"action":"appeal_ban"}` + entry},
		{event("DISABLED_UPDATE", `,"ban_info":{"waba_ban_state":"DISABLE"}`), `banned code=DISABLE` + entry},
		{event("DISABLED_UPDATE", `,"ban_info":{"waba_ban_state":"REINSTATE"}`), `connection_ready epoch=1767614430000 code=DISABLED_UPDATE` + entry},
		{event("ACCOUNT_RECONNECTED", ""), `connection_ready epoch=1767614430000 code=ACCOUNT_RECONNECTED` + entry},
		{event("ACCOUNT_VIOLATION", `,"violation_info":{"violation_type":"ADULT"}`), `user_action_needed code=ADULT data={"action":"policy_violation"}` + entry},
		{event("ACCOUNT_VIOLATION", ""), `user_action_needed data={"action":"policy_violation"}` + entry},
		{quality("FLAGGED"), `user_action_needed code=FLAGGED data={"action":"check_quality"}` + entry},
		{quality("UNFLAGGED"), `user_action_needed code=UNFLAGGED data={"action":""}` + entry},
	} {
		for state, first := range map[string]string{"": adopted, "IDLE": adopted, "RUNNING": "", "LOGGED_OUT": "", "DISCONNECTED": ""} {
			want := "c1:155 [h] " + first + c.want
			if got := hash.ReplaceAllString(say(t, state, c.body), "[h]"); got != want {
				t.Errorf("in %q: %s\n got %s\nwant %s", state, c.body, got, want)
			}
		}
	}
	for _, name := range []string{"ACCOUNT_DELETED", "ACCOUNT_OFFBOARDED", "PARTNER_REMOVED", "PARTNER_APP_UNINSTALLED"} {
		why := " by=remote code=PRIMARY_INACTIVITY text=" + name
		body := event(name, `,"disconnection_info":{"reason":"PRIMARY_INACTIVITY","initiated_by":"SYSTEM"}`)
		for state, want := range map[string]string{"RUNNING": "logout" + why, "LOGGED_OUT": "logout" + why, "": `adopt` + why + ` data={"state":"LOGGED_OUT"}`} {
			if got := hash.ReplaceAllString(say(t, state, body), "[h]"); got != "c1:155 [h] "+want+entry {
				t.Errorf("in %q: %s", state, got)
			}
		}
		if got := hash.ReplaceAllString(say(t, "RUNNING", event(name, "")), "[h]"); got != "c1:155 [h] logout by=remote code="+name+entry {
			t.Errorf("without disconnection_info: %s", got)
		}
	}
}

func TestAccountEventsThatAreNotUnderstood(t *testing.T) {
	const end = ` map[entry:1 event:ACCOUNT_RESTRICTION field:account_update]`
	check(t, []row{
		{"RUNNING", change("account_update", `{"event":"ACCOUNT_RESTRICTION","restriction_info":[]}`), `unmapped: details of event "ACCOUNT_RESTRICTION"` + end},
		{"RUNNING", change("account_update", `{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_DANCING"}]}`), `unmapped: details of event "ACCOUNT_RESTRICTION"` + end},
		{"RUNNING", change("account_update", `{"event":"ACCOUNT_RESTRICTION","restriction_info":{"restriction_type":"RESTRICTED_BIZ_INITIATED_MESSAGING"}}`), `unmapped: details of event "ACCOUNT_RESTRICTION"` + end},
		{"RUNNING", change("account_update", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"PONDERED"}}`), `unmapped: details of event "DISABLED_UPDATE" map[entry:1 event:DISABLED_UPDATE field:account_update]`},
		{"RUNNING", change("account_update", `{"event":"DISABLED_UPDATE"}`), `unmapped: details of event "DISABLED_UPDATE" map[entry:1 event:DISABLED_UPDATE field:account_update]`},
		{"RUNNING", change("account_update", `{"phone_number":"155"}`), `unmapped: an event without a name, field "account_update" map[entry:1 field:account_update phone_number:155]`},
		{"RUNNING", change("account_update", `{"event":"ACCOUNT_DELETED"}`), `unmapped: a business account without a known number, event "ACCOUNT_DELETED" map[entry:1 event:ACCOUNT_DELETED field:account_update]`},
		{"RUNNING", change("phone_number_quality_update", `{"event":"FLAGGED"}`), `unmapped: an event without a number "FLAGGED" map[entry:1 event:FLAGGED field:phone_number_quality_update]`},
		{"RUNNING", change("phone_number_quality_update", `{}`), `unmapped: an event without a name, field "phone_number_quality_update" map[entry:1 field:phone_number_quality_update]`},
	})
}

// TestBusinessAccounts follows who gets an event of a whole business account:
// the numbers that were seen in messages before it, in the same body, too, and
// those that are configured.
func TestBusinessAccounts(t *testing.T) {
	k := with{mem: &hub.MapMemory{}}
	do := func(body string) string {
		list := connectortest.Say(t, k, source, request(body), in("RUNNING"))
		who, _, _ := strings.Cut(list[len(list)-1], " [")
		return who
	}
	seen := func(waba, number string) string {
		return `{"id":"` + waba + `","changes":[{"field":"messages","value":{"metadata":{"display_phone_number":"` + number + `"},"statuses":[{"id":"w","status":"sent"}]}}]}`
	}
	deleted := func(waba, rest string) string {
		return `{"id":"` + waba + `","changes":[{"field":"account_update","value":{"event":"ACCOUNT_DELETED"` + rest + `}}]}`
	}
	body := func(entries ...string) string {
		return `{"object":"whatsapp_business_account","entry":[` + strings.Join(entries, ",") + `]}`
	}
	for _, c := range []struct{ what, body, want string }{
		{"nobody is known", body(deleted("1", "")), `unmapped: a business account without a known number, event "ACCOUNT_DELETED" map[entry:1 event:ACCOUNT_DELETED field:account_update]`},
		{"seen in the same body", body(seen("1", "155"), deleted("1", "")), "c1:155"},
		{"seen later in the same body", body(seen("1", "+1 56"), seen("10", "170"), deleted("1", "")), "c1:155,c1:156"},
		{"another business account", body(deleted("10", "")), "c1:170"},
		{"nested", body(deleted("10", `,"waba_info":{"waba_id":"1","owner_business_id":"5"}`)), "c1:155,c1:156"},
		{"nested and unknown", body(deleted("1", `,"waba_info":{"waba_id":"404"}`)), `unmapped: a business account without a known number, event "ACCOUNT_DELETED" map[entry:1 event:ACCOUNT_DELETED field:account_update]`},
		{"the event names a number", body(deleted("1", `,"phone_number":"+1 99"`)), "c1:199"},
		{"configured", body(deleted("9", "")), "c1:901,c1:902"},
		{"configured and seen", body(seen("9", "900"), seen("9", "901"), deleted("9", "")), "c1:900,c1:901,c1:902"},
		{"seen in an echo", body(`{"id":"11","changes":[{"field":"smb_message_echoes","value":{"metadata":{"display_phone_number":"180"},"message_echoes":[{"id":"w","to":"77"}]}}]}`, deleted("11", "")), "c1:180"},
	} {
		if got := do(c.body); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestFannedOutEventsAreTheCallersToChange: what the caller fills in for one
// account must not show for another.
func TestFannedOutEventsAreTheCallersToChange(t *testing.T) {
	body := `{"object":"whatsapp_business_account","entry":[{"id":"9","time":1767614430,"changes":[{"field":"account_update","value":{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"DISABLE"}}}]}]}`
	list, err := cloud.New().Read(t.Context(), source, &hub.MapMemory{}, request(body))
	if err != nil || len(list) != 1 || len(list[0].Accounts) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, state := range []string{"RUNNING", ""} {
		list[0].Map(in(state))[0].Account = "c1:901"
		if got := list[0].Map(in(state))[0].Account; got != "" {
			t.Errorf("in %q the next account gets a trigger of %s", state, got)
		}
	}
}

func TestIDsOfAccountEvents(t *testing.T) {
	id := func(body string) string {
		list, err := cloud.New().Read(t.Context(), source, &hub.MapMemory{}, request(body))
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].ID
	}
	event := change("account_update", `{"event":"ACCOUNT_DELETED","phone_number":"155"}`)
	one := id(event)
	if id(event) != one || !hash.MatchString("["+one+"]") {
		t.Errorf("a repeat has another id than %s", one)
	}
	for what, other := range map[string]string{
		"entry": strings.Replace(event, `"id":"1"`, `"id":"2"`, 1), "time": strings.Replace(event, "1767614430", "1767614431", 1), "value": strings.Replace(event, "155", "156", 1),
	} {
		if id(other) == one {
			t.Errorf("another %s has the same id", what)
		}
	}
}

// TestFirstBanOfANumber: the platform speaks only for registered numbers, so what
// was banned was up.
func TestFirstBanOfANumber(t *testing.T) {
	list, err := cloud.New().Read(t.Context(), source, &hub.MapMemory{}, request(change("account_update", `{"event":"DISABLED_UPDATE","phone_number":"155","ban_info":{"waba_ban_state":"DISABLE"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	got := list[0].Map(&domain.Account{State: "IDLE"})
	if len(got) != 2 || got[0].Name != "adopt" || got[0].Data["state"] != "RUNNING" || got[1].Name != "banned" {
		t.Errorf("%+v", got)
	}
}
