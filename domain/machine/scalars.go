package machine

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time span that is written as text, such as "5m" or "90s".
type Duration time.Duration

// MarshalText writes the span as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a span such as "5m".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("a time span is written like 90s or 5m: %w", err)
	}
	*d = Duration(v)
	return nil
}

// Names is a list of names that may be written as one text when it has one name.
type Names []string

// UnmarshalJSON reads a text or a list of texts.
func (n *Names) UnmarshalJSON(b []byte) error {
	return n.read(func(v any) error { return json.Unmarshal(b, v) })
}

// UnmarshalYAML reads a text or a list of texts.
func (n *Names) UnmarshalYAML(decode func(any) error) error { return n.read(decode) }

func (n *Names) read(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*n = Names{one}
		return nil
	}
	var many []string
	if err := decode(&many); err != nil {
		return fmt.Errorf("want a name or a list of names: %w", err)
	}
	*n = many
	return nil
}
