package natslog

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
)

func TestOutcomeByCode(t *testing.T) {
	refusal := func(code, errCode, words string) answer {
		return answer{body: []byte(`{"error":{"code":` + code + `,"err_code":` + errCode + `,"description":"` + words + `"},"stream":"S","seq":0}`)}
	}
	for _, c := range []struct {
		name string
		a    answer
		want error
		seq  uint64 // of the ack, or the last one that a conflict names
	}{
		{"ack", answer{body: []byte(`{"stream":"MUSTER_EV_00","seq":12345}`)}, nil, 12345},
		{"ack as a leader writes it", answer{body: []byte(`{"stream":"MUSTER_EV_00", "seq":7}`)}, nil, 7},
		{"ack of a domain", answer{body: []byte(`{"stream":"S","domain":"hub","seq":8}`)}, nil, 8},
		{"wrong last sequence", refusal("400", "10071", "wrong last sequence: 42"), eventlog.ErrConflict, 42},
		{"wrong last sequence without a number", refusal("400", "10071", "wrong last sequence"), eventlog.ErrConflict, 0},
		{"wrong last sequence in process", refusal("400", "10164", "wrong last sequence"), eventlog.ErrConflict, 0},
		{"words like a conflict's, but not its code", refusal("400", "10193", "wrong last sequence: 42"), eventlog.ErrRefused, 0},
		{"duplicate in process", refusal("409", "10158", "duplicate message id is in process"), eventlog.ErrUnknown, 0},
		{"duplicate in a batch", refusal("400", "10201", "atomic publish batch contains duplicate message id"), eventlog.ErrUnknown, 0},
		{"guard not ready", refusal("503", "10163", "temporarily unavailable"), eventlog.ErrUnknown, 0},
		{"too many requests", refusal("429", "10167", "too many requests"), eventlog.ErrUnknown, 0},
		{"no cluster", refusal("503", "10008", "JetStream system temporarily unavailable"), eventlog.ErrUnknown, 0},
		{"JetStream is off", refusal("503", "10076", "JetStream not enabled"), eventlog.ErrUnknown, 0},
		{"stream offline", refusal("500", "10118", "stream is offline"), eventlog.ErrUnknown, 0},
		{"store full", refusal("503", "10077", "maximum bytes exceeded"), eventlog.ErrRefused, 0},
		{"no resources", refusal("503", "10023", "insufficient resources"), eventlog.ErrRefused, 0},
		{"message too large", refusal("400", "10054", "message size exceeds maximum allowed"), eventlog.ErrRefused, 0},
		{"a code of a later server", refusal("400", "19999", "something new"), eventlog.ErrRefused, 0},
		{"no responders", answer{status: "503"}, eventlog.ErrUnknown, 0},
		{"timeout", answer{err: nats.ErrTimeout}, eventlog.ErrUnknown, 0},
		{"connection lost", answer{err: errLost}, eventlog.ErrUnknown, 0},
		{"connection closed", answer{err: nats.ErrConnectionClosed}, eventlog.ErrUnknown, 0},
		{"payload above the server's limit", answer{err: nats.ErrMaxPayload}, eventlog.ErrRefused, 0},
		{"no ack and no error", answer{body: []byte(`{"type":"x"}`)}, eventlog.ErrUnknown, 0},
		{"an ack without a sequence", answer{body: []byte(`{"stream":"S","seq":0}`)}, eventlog.ErrUnknown, 0},
		{"not JSON", answer{body: []byte(`+OK`)}, eventlog.ErrUnknown, 0},
		{"nothing", answer{}, eventlog.ErrUnknown, 0},
	} {
		seq, err := outcome("acct", c.a)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
			continue
		}
		var conflict *eventlog.ConflictError
		if errors.As(err, &conflict) {
			seq = conflict.Last
		}
		if seq != c.seq {
			t.Errorf("%s: sequence %d, want %d", c.name, seq, c.seq)
		}
		if err != nil && !strings.Contains(err.Error(), "acct") {
			t.Errorf("%s: %v does not name the account", c.name, err)
		}
	}
}

func TestRefusalCarriesTheServersWords(t *testing.T) {
	_, err := outcome("a", answer{body: []byte(`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"S","seq":0}`)})
	if err == nil || !strings.Contains(err.Error(), "message size exceeds maximum allowed (10054)") {
		t.Errorf("refusal %v", err)
	}
}

func TestPosition(t *testing.T) {
	for _, c := range []struct {
		reply string
		want  position
		ok    bool
	}{
		{"$JS.ACK.S.c.1.17.5.1700000000000000001.3", position{17, 5, 1700000000000000001}, true},
		{"$JS.ACK.hub.ACC.S.c.1.17.5.170.3", position{17, 5, 170}, true},
		{"$JS.ACK._.ACC.S.c.1.17.5.170.3.x9", position{17, 5, 170}, true},
		{"$JS.ACK.S.c.1.17.5.170", position{}, false},
		{"$JS.ACK.S.c.1.x.5.170.3", position{}, false},
		{"$JS.ACK.S.c.1..5.170.3", position{}, false},
		{"$JS.ACK.", position{}, false},
		{"_INBOX.x", position{}, false},
		{"", position{}, false},
	} {
		if got, ok := parsePosition(c.reply); got != c.want || ok != c.ok {
			t.Errorf("parsePosition(%q) = %+v, %v, want %+v, %v", c.reply, got, ok, c.want, c.ok)
		}
	}
}
