package wuzapi

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// events says who reads which event.
var events = map[string]func(*event) []connector.Delivery{
	"QR":                   session(plain("qr_received")),
	"QRTimeout":            session(known("qr_expired")),
	"PairSuccess":          session(paired),
	"PairError":            session(known("pair_failed")),
	"Connected":            session(connected),
	"OfflineSyncCompleted": session(known("sync_completed")),
	"Disconnected":         session(lost("connection_lost", "")),
	"StreamError":          session(lost("connection_lost", "Code")),
	"LoggedOut":            session(loggedOut),
	"ConnectFailure":       session(connectFailure),
	"ClientOutdated":       session(outdated),
	"TemporaryBan":         session(temporaryBan),
	"StreamReplaced":       session(lost("connection_replaced", "")),
	"KeepAliveTimeout":     session(known("probe_failed")),
	"KeepAliveRestored":    session(known("probe_ok")),
	"ReadReceipt":          readReceipt,
	"Message":              readMessage,
}

// quiet are events that are known and of no interest.
var quiet = map[string]bool{
	"UndecryptableMessage": true, "Receipt": true, "MediaRetry": true, "FBMessage": true,
	"GroupInfo": true, "JoinedGroup": true, "Picture": true, "Blocklist": true, "BlocklistChange": true,
	"QRScannedWithoutMultidevice": true, "CATRefreshError": true, "IdentityChange": true,
	"PrivacySettings": true, "PushNameSetting": true, "PushName": true, "BusinessName": true, "UserAbout": true, "Contact": true,
	"AppState": true, "AppStateSyncComplete": true, "AppStateSyncError": true, "HistorySync": true, "OfflineSyncPreview": true,
	"LabelEdit": true, "LabelAssociationChat": true, "LabelAssociationMessage": true,
	"CallOffer": true, "CallAccept": true, "CallTerminate": true, "CallOfferNotice": true, "CallRelayLatency": true, "CallPreAccept": true, "CallReject": true, "CallTransport": true,
	"Presence": true, "ChatPresence": true,
	"NewsletterJoin": true, "NewsletterLeave": true, "NewsletterMuteChange": true, "NewsletterLiveUpdate": true,
}

// A rule says which triggers an event of the session is for an account. data is
// what the library's event holds; t carries the time.
type rule func(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger

// session reads an event of the session. It has no id, and its time is the
// arrival.
func session(r rule) func(*event) []connector.Delivery {
	return func(e *event) []connector.Delivery {
		t := peer.At(e.arrival)
		return []connector.Delivery{peer.Fact(e.account, "", func(a *domain.Account) []domain.Trigger { return r(a, t, e.data) })}
	}
}

func plain(trigger string) rule {
	return func(_ *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
		return connector.One(t, trigger)
	}
}

func known(trigger string) rule {
	return func(a *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
		return connector.Known(a, t, trigger)
	}
}

// lost: code names the field that says why, "" = none does.
func lost(trigger, code string) rule {
	return func(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
		t.Reason.Code = peer.ID(data, code)
		return connector.Lost(a, t, trigger)
	}
}

// paired: a code was scanned. Where nothing was begun, that began it.
func paired(a *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
	scanned := connector.One(t, "qr_scanned")
	if connector.In(a, connector.Idle, connector.Disconnected, connector.LoggedOut, connector.Stopped) {
		return append(connector.One(t, "start"), scanned...)
	}
	return scanned
}

// connected: the library says it only after a login with keys that it had, which
// is proof enough.
func connected(a *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
	return connector.Ready(a, t, true)
}

// loggedOut: the server's code; an event during a connection has none, and means
// the code of a device that was unlinked.
func loggedOut(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.By = domain.ByRemote
	t.Reason.Code = peer.ID(data, "Reason")
	if t.Reason.Code == "" || t.Reason.Code == "0" {
		t.Reason.Code = "401"
	}
	return connector.Logout(a, t)
}

// connectFailure: with a code the server refused; without one nobody was there to
// refuse, and the attempt failed.
func connectFailure(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.Reason.Code = peer.ID(data, "Reason")
	switch {
	case t.Reason.Code != "":
		return connector.Lost(a, t, "connect_refused")
	case connector.In(a, connector.Connecting, connector.Reconnecting, connector.Disconnected):
		return connector.One(t, "reconnect_failed")
	}
	return connector.Lost(a, t, "connection_lost")
}

func outdated(a *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
	t.Reason.Code = "405"
	return connector.Lost(a, t, "connect_refused")
}

// temporaryBan: Expire is how long it lasts, in ns; 0 is not known.
func temporaryBan(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.Reason.Code = peer.ID(data, "Code")
	length, _ := data.Int("Expire")
	return connector.Lost(a, connector.For(t, length), "banned")
}
