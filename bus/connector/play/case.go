package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
)

// Case is a recorded sequence.
type Case struct {
	About     string             `json:"about"`
	Connector string             `json:"connector"` // its kind
	Secret    string             `json:"secret"`    // of every source that a path names
	Config    connector.Settings `json:"config"`
	Requests  []Request          `json:"requests"`
	Expect    Expect             `json:"expect"`

	// Source, when set, is the only source, instead of those that the paths name.
	Source *connector.Source `json:"-"`
}

// Request is one recorded request. At most one of Body, Raw and Padded is given.
type Request struct {
	At      time.Time         `json:"received_at"`
	Method  string            `json:"method"`
	Path    string            `json:"path"` // with the query
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`    // a JSON value
	Raw     *string           `json:"raw"`     // the exact body
	Padded  *Padded           `json:"raw_pad"` // a body too large to write down
}

// Padded is Head, then Pad as often as Times says, then Tail.
type Padded struct {
	Head  string `json:"head"`
	Pad   string `json:"pad"`
	Times int    `json:"times"`
	Tail  string `json:"tail"`
}

// Expect is what is expected of a sequence. Only Until matters for playing it.
type Expect struct {
	HTTP            []int                        `json:"http"`
	Accounts        map[string]ExpectAccount     `json:"accounts"`
	NoNewEvents     []int                        `json:"no_new_events"`
	Unmapped        *int64                       `json:"unmapped"`
	Ignored         *int64                       `json:"ignored"`
	Until           *time.Time                   `json:"until"`
	Bodies          map[string]string            `json:"bodies"`
	ResponseHeaders map[string]map[string]string `json:"response_headers"`
	SecretsAbsent   []string                     `json:"secrets_absent"`
}

// ExpectAccount is what is expected of one account.
type ExpectAccount struct {
	State         string              `json:"state"`
	Conditions    []map[string]string `json:"conditions"` // each with the keys that count
	Attention     []string            `json:"attention"`
	Trail         []string            `json:"trail"`
	Messages      map[string]string   `json:"messages"`
	Conversations map[string]string   `json:"conversations"`
}

// maxBody bounds what a padded body may grow to, in bytes.
const maxBody = 64 << 20

// Parse reads a sequence. Unknown fields are errors, but for those of later
// expectations.
func Parse(text []byte) (*Case, error) {
	c := &Case{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("it is no recorded sequence: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no recorded sequence: something follows its object")
	}
	if c.Connector == "" || len(c.Requests) == 0 {
		return nil, errors.New("it is no recorded sequence: it needs a connector and requests")
	}
	for i := range c.Requests {
		if err := c.Requests[i].check(); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		if i > 0 && c.Requests[i].At.Before(c.Requests[i-1].At) {
			return nil, fmt.Errorf("request %d: it is received before the one in front of it; a clock does not run backwards", i)
		}
	}
	return c, nil
}

func (r *Request) check() error {
	if r.At.IsZero() {
		return errors.New("received_at is missing")
	}
	if r.Method == "" || !strings.HasPrefix(r.Path, "/") {
		return errors.New("it needs a method, and a path that begins with a slash")
	}
	if _, err := url.ParseRequestURI(r.Path); err != nil {
		return errors.New("its path is none")
	}
	given := 0
	for _, is := range []bool{r.Body != nil, r.Raw != nil, r.Padded != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return errors.New("it has more than one of body, raw and raw_pad")
	}
	if p := r.Padded; p != nil && (p.Times < 0 || p.Times > maxBody || len(p.Pad)*p.Times > maxBody) {
		return fmt.Errorf("its body would be larger than %d bytes", maxBody)
	}
	return nil
}

// Bytes is the request's body.
func (r *Request) Bytes() []byte {
	switch {
	case r.Raw != nil:
		return []byte(*r.Raw)
	case r.Padded != nil:
		return []byte(r.Padded.Head + strings.Repeat(r.Padded.Pad, r.Padded.Times) + r.Padded.Tail)
	}
	return r.Body
}

// Sources are the sources of the sequence: those that its paths name.
func (c *Case) Sources(k connector.Connector) ([]*connector.Source, error) {
	if c.Source != nil {
		return []*connector.Source{c.Source}, nil
	}
	var list []*connector.Source
	seen := map[string]bool{}
	for i := range c.Requests {
		u, err := url.ParseRequestURI(c.Requests[i].Path)
		if err != nil {
			return nil, fmt.Errorf("request %d: its path is none", i)
		}
		rest, ok := strings.CutPrefix(u.Path, hub.Prefix+c.Connector)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		name, ok := hub.SourceOf(k, strings.Trim(rest, "/"))
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		s := &connector.Source{Kind: c.Connector, Name: name, Secrets: []string{c.Secret}}
		if err := c.Config.Apply(s); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}
