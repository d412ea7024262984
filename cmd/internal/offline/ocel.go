package offline

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/musterhq/muster/domain"
)

// ocelSink writes OCEL 2.0 in JSON: an event for each judged trigger; accounts,
// messages and conversations are its objects, with their states over time.
// Events are written as they come; the objects are held until the end.
type ocelSink struct {
	w       *bufio.Writer
	events  int
	types   map[string]bool
	objects map[string]*ocelObject
}

type ocelAttribute struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	Time  string `json:"time,omitempty"`
	Value string `json:"value,omitempty"`
}

type ocelRelation struct {
	Object    string `json:"objectId"`
	Qualifier string `json:"qualifier"`
}

type ocelType struct {
	Name       string          `json:"name"`
	Attributes []ocelAttribute `json:"attributes"`
}

type ocelEvent struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Time       string          `json:"time"`
	Attributes []ocelAttribute `json:"attributes"`
	Relations  []ocelRelation  `json:"relationships"`
}

type ocelObject struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Attributes []ocelAttribute `json:"attributes"`
	Relations  []ocelRelation  `json:"relationships"`

	state string
}

// The types of objects.
const (
	ocelAccount      = "account"
	ocelMessage      = "message"
	ocelConversation = "conversation"
)

// ocelAttributes are what events have; an empty one is left out.
var ocelAttributes = []string{"outcome", "from", "to", "source", "by", "reason", "verdict"}

func newOCEL(w io.Writer) *ocelSink {
	return &ocelSink{w: bufio.NewWriterSize(w, 64<<10), types: map[string]bool{}, objects: map[string]*ocelObject{}}
}

func ocelTime(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339Nano) }

func (s *ocelSink) Add(x *Exported) error {
	at := ocelTime(x.At)
	account := "account:" + string(x.Account)
	e := ocelEvent{ID: string(x.Account) + "#" + uintText(x.Version), Type: x.Trigger, Time: at, Attributes: []ocelAttribute{},
		Relations: []ocelRelation{{account, ocelAccount}}}
	for i, v := range []string{x.Outcome.String(), x.Event.From, x.Event.To, x.Source, string(x.By), x.Reason.Code, x.Verdict} {
		if v != "" {
			e.Attributes = append(e.Attributes, ocelAttribute{Name: ocelAttributes[i], Value: v})
		}
	}
	s.types[x.Trigger] = true
	a := s.object(account, ocelAccount, "")
	if len(a.Attributes) == 0 {
		a.add("machine", at, x.Machine)
	}
	switch x.Kind {
	case domain.KindMessage:
		s.about(&e, ocelMessage, x, at)
	case domain.KindConversation:
		s.about(&e, ocelConversation, x, at)
	default:
		a.becomes(x, at)
	}
	if s.events++; s.events == 1 {
		if _, err := s.w.WriteString(`{"events":[`); err != nil {
			return err
		}
	} else if err := s.w.WriteByte(','); err != nil {
		return err
	}
	return s.value(e)
}

// about relates an event to its message or conversation.
func (s *ocelSink) about(e *ocelEvent, kind string, x *Exported, at string) {
	if x.Outcome != domain.Applied && x.Outcome != domain.Noop && s.objects[kind+":"+string(x.Account)+"/"+x.Key] == nil {
		return // a rejected fact makes no object
	}
	o := s.object(kind+":"+string(x.Account)+"/"+x.Key, kind, "account:"+string(x.Account))
	e.Relations = append(e.Relations, ocelRelation{o.ID, kind})
	o.becomes(x, at)
}

// object returns an object and makes it when it is new; of: the account that it
// belongs to.
func (s *ocelSink) object(id, kind, of string) *ocelObject {
	o := s.objects[id]
	if o == nil {
		o = &ocelObject{ID: id, Type: kind, Attributes: []ocelAttribute{}, Relations: []ocelRelation{}}
		if of != "" {
			o.Relations = append(o.Relations, ocelRelation{of, "of"})
		}
		s.objects[id] = o
	}
	return o
}

// becomes notes the object's state when it changes.
func (o *ocelObject) becomes(x *Exported, at string) {
	if x.Outcome == domain.Applied && x.Event.To != o.state {
		o.state = x.Event.To
		o.add("state", at, o.state)
	}
}

func (o *ocelObject) add(name, at, value string) {
	if value == "" {
		return
	}
	o.Attributes = append(o.Attributes, ocelAttribute{Name: name, Time: at, Value: value})
}

func (s *ocelSink) value(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.w.Write(b)
	return err
}

func (s *ocelSink) Close() error {
	text := func(names ...string) (list []ocelAttribute) {
		for _, n := range names {
			list = append(list, ocelAttribute{Name: n, Type: "string"})
		}
		return list
	}
	rest := struct {
		EventTypes  []ocelType    `json:"eventTypes"`
		ObjectTypes []ocelType    `json:"objectTypes"`
		Objects     []*ocelObject `json:"objects"`
	}{[]ocelType{}, []ocelType{{ocelAccount, text("machine", "state")}, {ocelMessage, text("state")}, {ocelConversation, text("state")}}, []*ocelObject{}}
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		rest.EventTypes = append(rest.EventTypes, ocelType{name, text(ocelAttributes...)})
	}
	for _, id := range slices.Sorted(maps.Keys(s.objects)) {
		rest.Objects = append(rest.Objects, s.objects[id])
	}
	b, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	head := `],`
	if s.events == 0 {
		head = `{"events":[],`
	}
	if _, err := s.w.WriteString(head); err != nil {
		return err
	}
	if _, err := s.w.Write(append(b[1:], '\n')); err != nil {
		return err
	}
	return s.w.Flush()
}

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }
