package projectiontest

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// checkKeepsNothing: the texts of an event may be part of a buffer that is used
// again once Apply returns.
func (s Subject) checkKeepsNothing(t *testing.T) {
	h := Generate(3, Config{Talk: 30})
	v := s.New(h, h.Roster)
	for _, i := range h.Items {
		e, buffers := lend(i.Event)
		v.Apply(i.At, e)
		for _, b := range buffers {
			for k := range b {
				b[k] = '#'
			}
		}
	}
	same(t, "when the texts of events are overwritten", s.answers(t, h, v), s.answers(t, h, s.live(h)))
}

// lend copies an event so that each of its texts is part of a buffer that the
// caller can overwrite, as a zero-copy reader's are.
func lend(e *domain.Event) (*domain.Event, [][]byte) {
	c := *e
	var buffers [][]byte
	text := func(s string) string {
		if s == "" {
			return s
		}
		b := []byte(s)
		buffers = append(buffers, b)
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	for _, s := range []*string{
		&c.ID, &c.Machine, &c.Initial, &c.Mode, &c.Key, &c.Trigger, &c.From, &c.To, &c.Source,
		&c.Reason.Code, &c.Reason.Text, &c.Verdict, (*string)(&c.Account), (*string)(&c.By),
	} {
		*s = text(*s)
	}
	if e.Labels != nil {
		c.Labels = map[string]string{}
		for k, v := range e.Labels {
			c.Labels[text(k)] = text(v)
		}
	}
	c.Data, _ = lendValue(map[string]any(e.Data), text).(map[string]any)
	c.Set = slices.Clone(e.Set)
	for i := range c.Set {
		c.Set[i].Name, c.Set[i].Scope, c.Set[i].Reason = text(c.Set[i].Name), text(c.Set[i].Scope), text(c.Set[i].Reason)
	}
	c.Ended = slices.Clone(e.Ended)
	for i := range c.Ended {
		c.Ended[i].Name, c.Ended[i].Scope = text(c.Ended[i].Name), text(c.Ended[i].Scope)
	}
	return &c, buffers
}

func lendValue(v any, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := map[string]any{}
		for k, x := range v {
			c[text(k)] = lendValue(x, text)
		}
		return c
	}
	return v
}
