package accounts_test

import (
	"slices"
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// borrowed copies an event so that each of its texts is part of a buffer that
// the caller can overwrite, as a zero-copy reader's are.
func borrowed(e *domain.Event) (*domain.Event, [][]byte) {
	c := *e
	var buffers [][]byte
	lend := func(s string) string {
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
		*s = lend(*s)
	}
	if e.Labels != nil {
		c.Labels = map[string]string{}
		for k, v := range e.Labels {
			c.Labels[lend(k)] = lend(v)
		}
	}
	c.Data, _ = lendValue(map[string]any(e.Data), lend).(map[string]any)
	c.Set = slices.Clone(e.Set)
	for i := range c.Set {
		c.Set[i].Name, c.Set[i].Scope, c.Set[i].Reason = lend(c.Set[i].Name), lend(c.Set[i].Scope), lend(c.Set[i].Reason)
	}
	return &c, buffers
}

func lendValue(v any, lend func(string) string) any {
	switch v := v.(type) {
	case string:
		return lend(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := map[string]any{}
		for k, x := range v {
			c[lend(k)] = lendValue(x, lend)
		}
		return c
	}
	return v
}
