package cloud

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "cloud"

// Connector reads the webhooks of the WhatsApp Cloud API.
type Connector struct{}

var (
	_ connector.Connector = Connector{}
	_ connector.Shaker    = Connector{}
)

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is "cloud".
func (Connector) Kind() string { return Kind }

// Methods are GET, for the proof of a subscription, and POST.
func (Connector) Methods() []string { return []string{http.MethodGet, http.MethodPost} }

// Shake answers the proof of a subscription: with the challenge when the token is
// that of the source, else with 403.
func (Connector) Shake(s *connector.Source, r *connector.Request) (connector.Answer, bool) {
	if r.Method != http.MethodGet {
		return connector.Answer{}, false
	}
	right := payload.Secret([]string{s.VerifyToken}, r.Query.Get("hub.verify_token"))
	if !right || r.Query.Get("hub.mode") != "subscribe" {
		return connector.Answer{Status: http.StatusForbidden}, true
	}
	return connector.Answer{Status: http.StatusOK, Body: r.Query.Get("hub.challenge")}, true
}

// The signature's header and what stands in front of the digits. The older
// header with SHA-1 is not enough.
const (
	signatureHeader = "X-Hub-Signature-256"
	signaturePrefix = "sha256="
)

// Authentic checks the signature of the body as it was sent.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	given := r.Header.Get(signatureHeader)
	if given == "" {
		return peer.ErrMissing
	}
	digits, ok := strings.CutPrefix(given, signaturePrefix)
	if !ok {
		return peer.ErrWrong
	}
	if _, ok := payload.Signed(sha256.New, s.Secrets, r.Body, digits); !ok {
		return peer.ErrWrong
	}
	return nil
}

// businessObject is the object of all bodies that are about WhatsApp.
const businessObject = "whatsapp_business_account"

// Read takes the body apart into its statuses, messages and account events.
func (Connector) Read(ctx context.Context, s *connector.Source, mem connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	name := peer.ID(body, "object")
	entries, ok := body.List("entry")
	if name != businessObject || !ok || len(entries) == 0 {
		return []connector.Delivery{peer.Unmapped("object", name, body.Pick("object"))}, nil
	}
	rd := &reader{ctx: ctx, source: s, memory: mem, arrival: r.At, noted: map[string]bool{}}
	for _, e := range entries {
		if err := rd.entry(e); err != nil {
			return nil, &connector.MemoryError{Err: err}
		}
	}
	return rd.list, nil
}

// reader collects the deliveries of one body.
type reader struct {
	ctx     context.Context
	source  *connector.Source
	memory  connector.Memory
	arrival int64
	noted   map[string]bool // numbers that are in the memory
	list    []connector.Delivery
}

func (r *reader) add(d connector.Delivery) { r.list = append(r.list, d) }

// change is one change of an entry.
type change struct {
	business string // the entry's id: the business account
	time     any    // of the entry, as it is written
	at       int64  // the same, unix ns; the arrival when it names none
	field    string
	value    payload.Object
}

// object is v when that is an object, else an empty one.
func object(v any) payload.Object {
	m, _ := v.(map[string]any)
	return m
}

func (r *reader) entry(v any) error {
	entry := object(v)
	changes, ok := entry.List("changes")
	if !ok || len(changes) == 0 {
		r.add(peer.Unmapped("an entry without changes", "", entry.Pick("id", "time")))
		return nil
	}
	c := change{business: peer.ID(entry, "id"), time: entry.At("time"), at: r.arrival}
	if at, ok := payload.Unix(c.time); ok {
		c.at = at
	}
	for _, v := range changes {
		one := object(v)
		c.field = peer.ID(one, "field")
		c.value, _ = one.Object("value")
		if err := r.change(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) change(c change) error {
	switch reading := fields[c.field]; {
	case reading != nil:
		return reading(r, &c)
	case otherFields[c.field]:
		r.add(connector.Ignore())
	default:
		r.unmapped(&c, "field", c.field)
	}
	return nil
}

// unmapped adds what is not known of a change.
func (r *reader) unmapped(c *change, what, name string) {
	sample := c.value.Pick("event", "phone_number", "display_phone_number")
	sample["entry"], sample["field"] = payload.Clip(c.business), payload.Clip(c.field)
	r.add(peer.Unmapped(what, name, sample))
}

// numberPaths are where a change may name the number that it is about.
var numberPaths = [][]string{{"metadata", "display_phone_number"}, {"display_phone_number"}, {"phone_number"}}

// number is the number that a change is about, in digits; "" when it names none.
func (c *change) number() string {
	for _, path := range numberPaths {
		if digits := onlyDigits(peer.ID(c.value, path...)); digits != "" {
			return digits
		}
	}
	return ""
}

func onlyDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// note keeps that a number belongs to a business account.
func (r *reader) note(business, number string) error {
	key := businessKey(business) + number
	if business == "" || r.noted[key] {
		return nil
	}
	if _, err := r.memory.PutNew(r.ctx, r.source.Name, key, number); err != nil {
		return err
	}
	r.noted[key] = true
	return nil
}

func businessKey(business string) string { return "waba/" + business + "/" }

// numbersOf are the numbers of a business account that are known.
func (r *reader) numbersOf(business string) ([]string, error) {
	keys, err := r.memory.Keys(r.ctx, r.source.Name, businessKey(business))
	if err != nil {
		return nil, err
	}
	numbers := map[string]bool{}
	for _, k := range keys {
		numbers[strings.TrimPrefix(k, businessKey(business))] = true
	}
	for _, n := range r.source.WABANumbers[business] {
		numbers[onlyDigits(n)] = true
	}
	delete(numbers, "")
	return slices.Sorted(maps.Keys(numbers)), nil
}

// registered puts in front of the triggers of a number of which nothing is known
// that it is up: the platform speaks only for numbers that are registered. The
// list is the caller's to change.
func registered(a *domain.Account, list []domain.Trigger) []domain.Trigger {
	if !connector.Fresh(a) {
		return slices.Clone(list)
	}
	up := domain.Trigger{At: list[0].At, HasAt: list[0].HasAt, Expect: domain.NoExpect}
	return append([]domain.Trigger{connector.Adopt(up, connector.Running)}, list...)
}
