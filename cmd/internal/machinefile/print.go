package machinefile

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/domain/machine"
)

// Print writes a definition as a machine file: states, edges and the like one
// a line. Parse gives the same machine back.
func Print(def machine.Definition) ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(def); err != nil {
		return nil, fmt.Errorf("print machine %s: %w", def.Name, err)
	}
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if list := doc.Content[i+1]; list.Kind == yaml.SequenceNode {
			for _, entry := range list.Content {
				entry.Style |= yaml.FlowStyle
			}
		}
	}
	tidy(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("print machine %s: %w", def.Name, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("print machine %s: %w", def.Name, err)
	}
	return b.Bytes(), nil
}

// tidy writes lists of texts on one line, a list of one name as the name, and
// 5m0s as 5m.
func tidy(n *yaml.Node) {
	for i, c := range n.Content {
		tidy(c)
		if n.Kind != yaml.MappingNode {
			continue
		}
		if i%2 == 0 {
			c.Style = 0 // the encoder quotes the key "on", which old readers took for a boolean
			continue
		}
		switch key := n.Content[i-1].Value; {
		case (key == "on" || key == "from") && len(c.Content) == 1:
			n.Content[i] = c.Content[0]
		case key == "after" || key == "beats":
			c.Value = shortSpan(c.Value)
		}
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.ScalarNode {
		n.Style |= yaml.FlowStyle
	}
}

// shortSpan takes the zero units off the end of a time span.
func shortSpan(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
