package accounts

import (
	"strings"

	"github.com/musterhq/muster/domain"
)

// own gives an event copies of all its texts, which may be part of a record: a
// message's key that the fold keeps would otherwise hold the record in memory.
func own(e *domain.Event) {
	for _, s := range []*string{
		&e.Machine, &e.Initial, &e.Mode, &e.Key, &e.Trigger, &e.From, &e.To, &e.Source,
		&e.Reason.Code, &e.Reason.Text, &e.Verdict,
	} {
		*s = strings.Clone(*s)
	}
	e.Data, _ = ownValue(map[string]any(e.Data)).(map[string]any)
}

// ownValue copies a JSON value.
func ownValue(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Clone(v)
	case map[string]any:
		if v == nil {
			return v
		}
		c := make(map[string]any, len(v))
		for k, x := range v {
			c[strings.Clone(k)] = ownValue(x)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = ownValue(x)
		}
		return c
	}
	return v
}
