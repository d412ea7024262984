package codec_test

import (
	"github.com/musterhq/muster/domain"
)

// hash is a hash with distinct bytes.
func hash(first byte) (h [16]byte) {
	for i := range h {
		h[i] = first + byte(i)
	}
	return h
}

// samples holds one event per kind; together they set every field, and the
// session one sets all that a session event can have. Their encodings are the
// golden files, so an existing sample never changes.
func samples() map[string]domain.Event {
	return map[string]domain.Event{
		"session":      sessionSample(),
		"message":      messageSample(),
		"conversation": conversationSample(),
		"account":      accountSample(),
		"mark":         markSample(),
		"foreign":      foreignSample(),
	}
}

func sessionSample() domain.Event {
	return domain.Event{
		Version:  1,
		ID:       "018f3c1e-7a52-7c3d-9b1e-0242ac120002",
		Account:  "15550100001@s.whatsapp.net",
		Kind:     domain.KindSession,
		Machine:  "whatsapp@2",
		Mode:     domain.ModeSupervise,
		Labels:   map[string]string{"region": "emea", "pool": "eu", "": "no name"},
		Trigger:  "rate_limited",
		Outcome:  domain.Applied,
		From:     "RUNNING",
		To:       "DEGRADED",
		At:       1767261600123456789,
		Recorded: 1767261600987654321,
		Source:   "waha-1",
		Epoch:    1767261000000,
		Seq:      70000,
		By:       domain.ByRemote,
		Reason:   domain.Reason{Code: "429", Text: "too many messages — slow down"},
		Verdict:  "a sentence",
		Data: domain.Data{
			"until": "2026-01-01T10:05:00Z", "scope": "", "ok": true, "no": false, "nothing": nil,
			"big": int64(9223372036854775807), "small": int64(-33), "half": 0.5, "tiny": int64(7),
			"list": []any{int64(1), "two", nil, []any{}, map[string]any{}},
			"deep": map[string]any{"b": map[string]any{"a": -1.25e300}, "a": int64(-2147483649)},
		},
		Set: []domain.Condition{
			{Name: "rate_limited", Since: 1767261600123456789, Until: 1767261900000000000, Reason: "429"},
			{Name: "restricted", Scope: "groups", Since: 1767261600123456789},
		},
		Ended:       []domain.ConditionRef{{Name: "unvouched"}, {Name: "restricted", Scope: "new_chats"}},
		Effects:     domain.EffectWantRun | domain.EffectFlap | domain.EffectLate,
		Correlation: "corr-1",
		Causation:   "cause-1",
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Writer:      42,
		Prev:        hash(0x10),
	}
}

func messageSample() domain.Event {
	return domain.Event{
		Version: 300, Account: "acct-1", Kind: domain.KindMessage, Key: "wamid.HBgL", Trigger: "message_replied",
		Outcome: domain.Noop, From: "TIMED_OUT", To: "REPLIED", At: -1, Recorded: 1767261600000000001,
		Source: "cloud", Data: domain.Data{"reply_within": int64(3600)}, Effects: domain.EffectLate, Writer: 65536, Prev: hash(0xf0),
	}
}

func conversationSample() domain.Event {
	return domain.Event{
		Version: 70000, ID: "c-9", Account: "+15550100001", Kind: domain.KindConversation, Key: "contact 7 🙂",
		Trigger: "claim", Outcome: domain.Rejected, From: "HUMAN", To: "HUMAN", At: 1767261600000000000,
		Recorded: 1767261600000000002, Source: "bot-3", Verdict: "human_in_charge",
		Data:   domain.Data{"message": "m-1", "side": "bot", "handler": "h-1"},
		Writer: 1 << 40, Prev: hash(1),
	}
}

func accountSample() domain.Event {
	return domain.Event{
		Version: 1 << 33, Account: "wxid_ab", Kind: domain.KindAccount, Trigger: "set_labels", Outcome: domain.Applied,
		From: "RUNNING", To: "RUNNING", At: 1767261600000000000, Recorded: 1767261600000000003, By: domain.ByUser,
		Data: domain.Data{"labels": map[string]any{"pool": "eu", "tier": "gold"}}, Writer: 255, Prev: hash(2),
	}
}

func markSample() domain.Event {
	return domain.Event{
		Version: 128, Account: "acct-2", Kind: domain.KindMark, Trigger: "condition_expired", Outcome: domain.Stale,
		From: "DEGRADED", To: "DEGRADED", At: 1767261900000000000, Recorded: 1767261900000000004, Source: domain.SourceMuster,
		By: domain.ByUs, Verdict: "older than what is known", Data: domain.Data{"condition": "rate_limited", "scope": ""},
		Ended: []domain.ConditionRef{{Name: "rate_limited"}}, Writer: 127, Prev: hash(3),
	}
}

func foreignSample() domain.Event {
	return domain.Event{
		Version: 1, Account: "acct-3", Kind: domain.KindForeign, Machine: "whatsapp@2", Initial: "IDLE", Mode: domain.ModeObserve,
		Trigger: "login_started", Outcome: domain.Rejected, From: "IDLE", To: "IDLE", At: 1767261600000000000,
		Recorded: 1767261600000000005, Source: "cli", By: domain.ByUser, Verdict: "whatsapp@2 has no trigger login_started", Writer: 1,
	}
}
