package connector

import (
	"encoding/json"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Settings are the settings of a source that only some kinds have, as they stand
// in configuration files and recorded sequences.
type Settings struct {
	Auth        string             `json:"auth,omitempty" yaml:"auth"`
	UTCOffset   string             `json:"utc_offset,omitempty" yaml:"utc_offset"`
	VerifyToken string             `json:"verify_token,omitempty" yaml:"verify_token"`
	WABANumbers map[string]Numbers `json:"waba_numbers,omitempty" yaml:"waba_numbers"`
}

// Numbers are phone numbers in digits; a single one may stand without a list.
type Numbers []string

// UnmarshalJSON reads a text or a list of texts.
func (n *Numbers) UnmarshalJSON(b []byte) error {
	return n.read(func(v any) error { return json.Unmarshal(b, v) })
}

// UnmarshalYAML reads a text or a list of texts.
func (n *Numbers) UnmarshalYAML(node *yaml.Node) error { return n.read(node.Decode) }

func (n *Numbers) read(into func(any) error) error {
	var one string
	if into(&one) == nil {
		*n = Numbers{one}
		return nil
	}
	var list []string
	if err := into(&list); err != nil {
		return fmt.Errorf("want a number in quotes, or a list of them")
	}
	*n = list
	return nil
}

// Apply checks the settings and puts them into a source. The error is a sentence
// that begins with the name of the setting.
func (c *Settings) Apply(s *Source) error {
	s.Auth, s.VerifyToken = c.Auth, c.VerifyToken
	if c.UTCOffset != "" {
		offset, err := parseOffset(c.UTCOffset)
		if err != nil {
			return err
		}
		s.UTCOffset = offset
	}
	if len(c.WABANumbers) > 0 {
		s.WABANumbers = map[string][]string{}
	}
	for waba, numbers := range c.WABANumbers {
		for _, n := range numbers {
			digits := onlyDigits(n)
			if digits == "" {
				return fmt.Errorf("waba_numbers: %q of business account %q has no digits; write a phone number", n, waba)
			}
			s.WABANumbers[waba] = append(s.WABANumbers[waba], digits)
		}
	}
	return nil
}

// maxOffset is further from UTC than any place on earth.
const maxOffset = 15 * time.Hour

func parseOffset(text string) (time.Duration, error) {
	if text == "Z" {
		return 0, nil
	}
	t, err := time.Parse("-07:00", text)
	if err != nil {
		return 0, fmt.Errorf("utc_offset is %q; write it as +03:00 or -05:30", text)
	}
	_, seconds := t.Zone()
	offset := time.Duration(seconds) * time.Second
	if offset > maxOffset || offset < -maxOffset {
		return 0, fmt.Errorf("utc_offset is %q, which is nowhere on earth", text)
	}
	return offset, nil
}

func onlyDigits(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] >= '0' && s[i] <= '9' {
			out = append(out, s[i])
		}
	}
	return string(out)
}
