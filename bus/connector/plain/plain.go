package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "plain"

// Connector reads trace lines.
type Connector struct{ judge *domain.Judge }

var _ connector.Connector = (*Connector)(nil)

// New returns the connector. The judge says which triggers and machines there
// are.
func New(judge *domain.Judge) *Connector { return &Connector{judge: judge} }

// Kind is "plain".
func (*Connector) Kind() string { return Kind }

// Methods is POST alone.
func (*Connector) Methods() []string { return []string{http.MethodPost} }

// Authentic checks the sender's token.
func (*Connector) Authentic(s *connector.Source, r *connector.Request) error {
	return peer.Bearer(s, r)
}

// lineTypes are the content types of bodies with one object to a line.
var lineTypes = map[string]bool{
	"application/x-ndjson": true, "application/ndjson": true, "application/jsonl": true, "application/x-jsonlines": true,
}

// Read reads the triggers of a body. The error names the line, when there are
// lines, and the field.
func (c *Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what is no type is no type of lines
	if !lineTypes[media] {
		d, err := c.line(s, r.Body, r.At)
		if err != nil {
			return nil, err
		}
		return []connector.Delivery{d}, nil
	}
	var list []connector.Delivery
	n := 0
	for text := range bytes.Lines(r.Body) {
		n++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		d, err := c.line(s, text, r.At)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, errors.New(`there is no line; a line is an object such as {"account":"acct-1","trigger":"start"}`)
	}
	return list, nil
}

func (c *Connector) line(s *connector.Source, text []byte, now int64) (connector.Delivery, error) {
	t, err := domain.ParseTrigger(text)
	if err != nil {
		return connector.Delivery{}, err
	}
	if t.Source == "" {
		t.Source = s.Name
	}
	if t.Source != s.Name && !strings.HasPrefix(t.Source, s.Name+"/") {
		return connector.Delivery{}, &domain.InvalidError{Field: "source",
			Reason: fmt.Sprintf("is not this sender's; leave it out, or give %s or %s/…", s.Name, s.Name)}
	}
	if err := peer.Judgeable(c.judge, &t, now); err != nil {
		return connector.Delivery{}, err
	}
	return peer.Verbatim(&t), nil
}
