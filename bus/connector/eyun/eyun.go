package eyun

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/bus/connector/wechat"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "eyun"

// Connector reads Eyun callbacks.
type Connector struct{}

var _ connector.Connector = Connector{}

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is "eyun".
func (Connector) Kind() string { return Kind }

// Methods is POST alone.
func (Connector) Methods() []string { return []string{http.MethodPost} }

// Authentic checks the key in the address.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	return wechat.Authentic(s, r)
}

// Read reads the one callback of a body.
func (Connector) Read(ctx context.Context, s *connector.Source, mem connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	epoch, err := epochOf(ctx, s, mem, peer.ID(body, "data", "wId"), r.At)
	if err != nil {
		return nil, err
	}
	return []connector.Delivery{read(s, body, epoch)}, nil
}

// epochOf is the epoch of a login: the arrival of the first callback that named
// it, in unix ms; 0 when none is named.
func epochOf(ctx context.Context, s *connector.Source, mem connector.Memory, login string, arrival int64) (int64, error) {
	if login == "" {
		return 0, nil
	}
	now := strconv.FormatInt(arrival/int64(time.Millisecond), 10)
	first, err := mem.PutNew(ctx, s.Name, "login/"+login, now)
	if err != nil {
		return 0, &connector.MemoryError{Err: err}
	}
	epoch, err := strconv.ParseInt(first, 10, 64)
	if err != nil { // nothing that this package has put there
		return 0, nil
	}
	return epoch, nil
}

// offlineType is the messageType of an offline notice.
const offlineType = "30000"

// The classes of messages: the first of the five digits of a messageType. The
// others number the form of the message.
const (
	personal = '6'
	special  = '7'
	ofGroup  = '8'
)

// classOf is the class of a message, 0 when the type is not that of one.
func classOf(kind string) byte {
	if _, err := strconv.ParseUint(kind, 10, 32); err != nil || len(kind) != len(offlineType) {
		return 0
	}
	switch class := kind[0]; class {
	case personal, special, ofGroup:
		return class
	default:
		return 0
	}
}

func read(s *connector.Source, body payload.Object, epoch int64) connector.Delivery {
	kind := peer.ID(body, "messageType")
	class := classOf(kind)
	if class == 0 && kind != offlineType {
		return unmapped("messageType", kind, body)
	}
	native := peer.ID(body, "wcId")
	account, ok := peer.Account(s, native)
	if !ok {
		return unmapped("a callback without an account, messageType", kind, body)
	}
	if class == 0 {
		reason, _ := body.Text("data", "reason")
		return peer.Fact(account, "", wechat.Offline(domain.Trigger{Epoch: epoch, Reason: peer.Reason("", reason), Expect: domain.NoExpect}))
	}
	m := wechat.Message{ID: peer.ID(body, "data", "newMsgId"), Epoch: epoch}
	if m.ID == "" {
		return unmapped("a message without an id, messageType", kind, body)
	}
	m.At, _ = payload.Unix(body.At("data", "timestamp"))
	from, to := peer.ID(body, "data", "fromUser"), peer.ID(body, "data", "toUser")
	if self, _ := body.Flag("data", "self"); class == personal && !self && from != native && wechat.Person(from) {
		m.Person = from
	}
	return peer.Fact(account, "msg/"+to+"/"+m.ID+"/"+from, m.Triggers)
}

func unmapped(what, name string, body payload.Object) connector.Delivery {
	sample := body.Pick("messageType", "wcId")
	if id := peer.ID(body, "data", "wId"); id != "" {
		sample["wId"] = payload.Clip(id)
	}
	return peer.Unmapped(what, name, sample)
}
