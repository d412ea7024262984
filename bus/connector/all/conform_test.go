package all_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	subject = connectortest.Subject
	sample  = connectortest.Sample
)

const shopOne = `"me":{"id":"15550100001@c.us","pushName":"Shop One"}`

// subjects are what each kind is tested with; evolution in each of its ways of
// proof. Bodies have the peers' real form.
var subjects = map[string]subject{
	"waha": {
		Timed: true, Hidden: []string{"Shop One", "tenant-77"},
		Fact:    sample{Body: `{"id":"evt_1","timestamp":1767614400000,"event":"session.status","session":"acct-1","metadata":{"tenant":"tenant-77"},` + shopOne + `,"payload":{"name":"acct-1","status":"WORKING","statuses":[{"status":"STARTING","timestamp":1767614395000},{"status":"WORKING","timestamp":1767614400000}]},"engine":"GOWS"}`},
		Later:   sample{Body: `{"id":"evt_2","timestamp":1767614500000,"event":"session.status","session":"acct-1",` + shopOne + `,"payload":{"name":"acct-1","status":"STOPPED","statuses":[{"status":"STARTING","timestamp":1767614395000},{"status":"WORKING","timestamp":1767614400000},{"status":"STOPPED","timestamp":1767614500000}]},"engine":"GOWS"}`},
		Unknown: sample{Body: `{"id":"evt_3","timestamp":1767614400000,"event":"session.teleported","session":"acct-1",` + shopOne + `,"payload":{"body":"tenant-77"}}`},
	},
	"evolution": {Timed: true, Hidden: evolutionHidden, Fact: evolutionFact, Later: evolutionLater, Unknown: evolutionUnknown},
	"evolution jwt": {
		Source: connector.Source{Auth: "jwt"},
		Timed:  true, Hidden: evolutionHidden, Fact: evolutionFact, Later: evolutionLater, Unknown: evolutionUnknown,
	},
	"evolution body_apikey": {
		Source: connector.Source{Auth: "body_apikey"},
		Timed:  true, Hidden: evolutionHidden[1:], Fact: evolutionFact, Later: evolutionLater, Unknown: evolutionUnknown,
	},
	"cloud": {
		Timed: true, Hidden: []string{"Ann Other", "are you open"},
		Fact:    sample{Body: cloudChange("messages", `{"messaging_product":"whatsapp","metadata":{"display_phone_number":"15550100001","phone_number_id":"2"},"contacts":[{"profile":{"name":"Ann Other"},"wa_id":"15550100077"}],"messages":[{"from":"15550100077","id":"wamid.1","timestamp":"1767780020","type":"text","text":{"body":"are you open"}}]}`, "1767780020")},
		Later:   sample{Body: cloudChange("account_update", `{"phone_number":"15550100001","event":"ACCOUNT_DELETED"}`, "1767780090")},
		Unknown: sample{Body: cloudChange("messages", `{"messaging_product":"whatsapp","metadata":{"display_phone_number":"15550100001","phone_number_id":"2"},"statuses":[{"id":"wamid.2","status":"teleported","timestamp":"1767780020","recipient_id":"15550100077","note":"are you open"}]}`, "1767780020")},
	},
	"mautrix": {
		Timed: true, Hidden: []string{"Shop One", "@ops:example.org"},
		Fact:    sample{Body: `{"state_event":"CONNECTED","timestamp":1767870000,"ttl":21600,"source":"bridge","user_id":"@ops:example.org","remote_id":"15550100001","remote_name":"+15550100001","remote_profile":{"phone":"+15550100001","name":"Shop One"}}`},
		Later:   sample{Body: `{"state_event":"BAD_CREDENTIALS","timestamp":1767870600,"ttl":3600,"source":"bridge","error":"wa-main-device-gone","user_id":"@ops:example.org","remote_id":"15550100001","remote_name":"+15550100001","remote_profile":{"name":"Shop One"}}`},
		Unknown: sample{Body: `{"state_event":"TELEPORTED","timestamp":1767870000,"source":"bridge","user_id":"@ops:example.org","remote_id":"15550100001","remote_profile":{"name":"Shop One"}}`},
	},
	"wuzapi": {
		ByArrival: true, Hidden: []string{"data:image/png;base64,d3V6LXFyLW9uZQ==", "shop-text"},
		Fact:    sample{Body: `{"event":{},"type":"Connected","instanceName":"shop-one","userID":"3f9c1a7be2d84c55","qrCodeBase64":"data:image/png;base64,d3V6LXFyLW9uZQ=="}`},
		Later:   sample{Body: `{"event":{"OnConnect":false,"Reason":401},"type":"LoggedOut","instanceName":"shop-one","userID":"3f9c1a7be2d84c55"}`},
		Unknown: sample{Body: `{"event":{"body":"shop-text"},"type":"Teleported","instanceName":"shop-one","userID":"3f9c1a7be2d84c55"}`},
	},
	"gewechat": {
		Hidden:  []string{"is it open?", "<msgsource/>"},
		Fact:    sample{Body: `{"TypeName":"AddMsg","Appid":"wx_1","Wxid":"wxid_1","Data":{"MsgId":1,"FromUserName":{"string":"wxid_77"},"ToUserName":{"string":"wxid_1"},"MsgType":1,"Content":{"string":"is it open?"},"CreateTime":1768039210,"MsgSource":"<msgsource/>","PushContent":"Guest : is it open?","NewMsgId":7000000000000000001}}`},
		Later:   sample{Body: `{"TypeName":"Offline","Appid":"wx_1","Wxid":"wxid_1"}`},
		Unknown: sample{Body: `{"TypeName":"Weather","Appid":"wx_1","Wxid":"wxid_1","Data":{"Content":{"string":"is it open?"}}}`},
	},
	"eyun": {
		Hidden:  []string{"18800000000", "is it open?"},
		Fact:    sample{Body: `{"account":"18800000000","messageType":"60001","wcId":"wxid_1","data":{"content":"is it open?","fromUser":"wxid_55","toUser":"wxid_1","msgId":1,"newMsgId":8000000000000000001,"timestamp":1768046400,"self":false,"wId":"wid-1"}}`},
		Later:   sample{Body: `{"account":"18800000000","messageType":"30000","wcId":"wxid_1","data":{"wId":"wid-1","reason":"session expired"}}`},
		Unknown: sample{Body: `{"account":"18800000000","messageType":"99999","wcId":"wxid_1","data":{"content":"is it open?","wId":"wid-1"}}`},
	},
	"cloudevents": {
		Timed: true, Hidden: []string{"order-text"},
		Fact:    sample{Header: ce("e-1", "muster.start", "2026-01-11T10:00:01Z"), Body: `{"by":"remote","reason":{"code":"7"}}`},
		Later:   sample{Header: ce("e-2", "muster.qr_received", "2026-01-11T10:00:09Z"), Body: `{"by":"remote"}`},
		Unknown: sample{Header: ce("e-3", "com.example.order", "2026-01-11T10:00:09Z"), Body: `{"text":"order-text"}`},
	},
	"plain": {
		Timed: true,
		Fact:  sample{Body: `{"id":"1","account":"acct-1","trigger":"start","at":"2026-01-11T10:00:01Z"}`},
		Later: sample{Body: `{"id":"2","account":"acct-1","trigger":"qr_received","at":"2026-01-11T10:00:09Z"}`},
	},
}

var (
	evolutionHidden  = []string{"evo-instance-key-7f3a", "Shop One", "https://evo.example", "data:image/png;base64,d3V6"}
	evolutionFact    = sample{Body: `{"event":"connection.update","instance":"acct-1","data":{"instance":"acct-1","wuid":"15550100001@s.whatsapp.net","profileName":"Shop One","state":"open","statusReason":200},"date_time":"2026-01-06T11:00:00.000Z","sender":"15550100001@s.whatsapp.net","server_url":"https://evo.example","apikey":"evo-instance-key-7f3a"}`}
	evolutionLater   = sample{Body: `{"event":"connection.update","instance":"acct-1","data":{"instance":"acct-1","state":"close","statusReason":401},"date_time":"2026-01-06T11:06:40.000Z","server_url":"https://evo.example","apikey":"evo-instance-key-7f3a"}`}
	evolutionUnknown = sample{Body: `{"event":"quantum.update","instance":"acct-1","data":{"base64":"data:image/png;base64,d3V6"},"date_time":"2026-01-06T11:06:40.000Z","server_url":"https://evo.example","apikey":"evo-instance-key-7f3a"}`}
)

func cloudChange(field, value, time string) string {
	return `{"object":"whatsapp_business_account","entry":[{"id":"1001","time":` + time + `,"changes":[{"field":"` + field + `","value":` + value + `}]}]}`
}

func ce(id, kind, at string) map[string]string {
	return map[string]string{"ce-specversion": "1.0", "ce-id": id, "ce-source": "/fleet/conn-1", "ce-type": kind, "ce-time": at, "ce-subject": "acct-9"}
}

// TestConform holds every kind to what all must withstand.
func TestConform(t *testing.T) {
	judge := domain.NewJudge(lifecycle.Registry())
	tested := map[string]bool{}
	for name, s := range subjects {
		kind := name
		if s.Source.Auth != "" {
			kind = "evolution"
		}
		k, ok := all.Named(kind)
		if !ok {
			t.Fatalf("there is no kind %q", kind)
		}
		tested[kind] = true
		s.Connector = k.New(judge)
		s.Source.Kind, s.Source.Name, s.Source.Secrets = kind, kind, []string{"conform-secret-new", "conform-secret-old"}
		t.Run(name, func(t *testing.T) { connectortest.Conform(t, s) })
	}
	for _, name := range all.Names() {
		if !tested[name] {
			t.Errorf("%s is not tested", name)
		}
	}
}
