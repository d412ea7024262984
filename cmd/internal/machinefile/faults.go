package machinefile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	atLine       = regexp.MustCompile(`^(?:yaml: )?line (\d+): (?s:(.*))$`)
	unknownField = regexp.MustCompile(`^field (.*) not found in type machine\.(\w+)$`)
)

// parts are the words for the types that a field can be missing in.
var parts = map[string]string{
	"Definition": "a machine", "State": "a state", "Edge": "an edge", "Choice": "a choice",
	"Deadline": "a deadline", "Retry": "retry",
}

// yamlFaults puts the decoder's complaints into our form.
func yamlFaults(err error) []Fault {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		line, text := cutLine(err.Error())
		return []Fault{{line, BadYAML, text}}
	}
	faults := make([]Fault, len(typed.Errors))
	for i, e := range typed.Errors {
		line, text := cutLine(e)
		faults[i] = Fault{line, BadValue, text}
		if m := unknownField.FindStringSubmatch(text); m != nil {
			faults[i] = Fault{line, UnknownField, fmt.Sprintf("there is no field %q in %s", m[1], parts[m[2]])}
		}
	}
	return faults
}

// cutLine takes the line number off a complaint of the decoder.
func cutLine(text string) (int, string) {
	m := atLine.FindStringSubmatch(text)
	if m == nil {
		return 0, strings.TrimPrefix(text, "yaml: ")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, text
	}
	return n, m[2]
}
