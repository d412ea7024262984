package machinefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/domain/machine"
)

// maxSize is the largest file that is read, in bytes. The built-in machines
// have some 10 KB.
const maxSize = 1 << 20

// File is a machine and where it came from.
type File struct {
	Path    string
	Machine *machine.Machine
}

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line int               `json:"line"` // 0: it is about the file as a whole
	Name machine.FaultName `json:"fault"`
	Text string            `json:"text"` // a sentence
}

// The kinds of faults beside those of package machine.
const (
	BadYAML      machine.FaultName = "bad_yaml"
	UnknownField machine.FaultName = "unknown_field"
	BadValue     machine.FaultName = "bad_value"
	TooLarge     machine.FaultName = "too_large"
)

// Error is a file that holds no usable machine.
type Error struct {
	Path   string
	Faults []Fault // in the order of their lines
}

// Error returns one line for each fault: path:line: kind: sentence.
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		where := e.Path
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", e.Path, f.Line)
		}
		lines[i] = fmt.Sprintf("%s: %s: %s", where, f.Name, f.Text)
	}
	return strings.Join(lines, "\n")
}

// Load reads the machine of one file.
func Load(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("read machine file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return File{}, fmt.Errorf("read machine file: %w", err)
	}
	m, err := Parse(path, text)
	return File{Path: path, Machine: m}, err
}

// LoadDir reads every *.yaml and *.yml file of a folder, in the order of their
// names. The faults of all of them are told at once.
func LoadDir(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read machine files: %s is no folder that can be read; name one that holds *.yaml files (--machines): %w", dir, err)
	}
	var files []File
	var faults []error
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.IsDir() || (ext != ".yaml" && ext != ".yml") {
			continue
		}
		f, err := Load(filepath.Join(dir, e.Name()))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		files = append(files, f)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read machine files: %s holds no *.yaml file; name a folder that does (--machines)", dir)
	}
	return files, nil
}

// Register adds the machines of files to a registry.
func Register(reg *machine.Registry, files []File) error {
	var faults []error
	for _, f := range files {
		if err := reg.Add(f.Machine); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", f.Path, err))
		}
	}
	return errors.Join(faults...)
}

// Parse reads the machine in text; path is for messages.
func Parse(path string, text []byte) (*machine.Machine, error) {
	if len(text) > maxSize {
		return nil, &Error{path, []Fault{{0, TooLarge, fmt.Sprintf("a machine file has at most %d bytes", maxSize)}}}
	}
	root, def, faults := decode(text)
	if len(faults) > 0 {
		return nil, &Error{path, inFile(faults, text)}
	}
	m, err := machine.Compile(def)
	if err == nil {
		return m, nil
	}
	var compiled machine.Faults
	if !errors.As(err, &compiled) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := newLines(root)
	for _, f := range compiled {
		faults = append(faults, Fault{Line: l.of(f), Name: f.Name, Text: f.Text})
	}
	return nil, &Error{path, inFile(faults, text)}
}

// inFile sorts faults by their lines, none of which is behind the file's last:
// YAML also ends a line where an editor does not.
func inFile(faults []Fault, text []byte) []Fault {
	last := bytes.Count(text, []byte("\n")) + 1
	for i := range faults {
		faults[i].Line = min(faults[i].Line, last)
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Line - b.Line })
	return faults
}

// decode reads YAML into a definition, strictly.
func decode(text []byte) (*yaml.Node, machine.Definition, []Fault) {
	var def machine.Definition
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, def, []Fault{{0, BadYAML, "the file is empty"}}
		}
		return nil, def, yamlFaults(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, def, []Fault{{0, BadYAML, "a file holds one machine; there is a second document in it"}}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, def, []Fault{{root.Line, BadYAML, "a machine file is a list of fields such as `name: shop@1`"}}
	}
	if faults := badSpans(root); len(faults) > 0 {
		return nil, def, faults
	}
	strict := yaml.NewDecoder(strings.NewReader(string(text)))
	strict.KnownFields(true)
	if err := strict.Decode(&def); err != nil {
		return nil, def, yamlFaults(err)
	}
	return root, def, nil
}

// badSpans finds time spans that are none, which the decoder would report
// without their lines.
func badSpans(n *yaml.Node) []Fault {
	var faults []Fault
	for i, c := range n.Content {
		faults = append(faults, badSpans(c)...)
		if n.Kind != yaml.MappingNode || i%2 == 0 || c.Kind != yaml.ScalarNode {
			continue
		}
		if key := n.Content[i-1].Value; key != "after" && key != "beats" {
			continue
		}
		var d machine.Duration
		if d.UnmarshalText([]byte(c.Value)) != nil {
			faults = append(faults, Fault{c.Line, BadValue, fmt.Sprintf("%q is no time span; write it like 90s or 5m", c.Value)})
		}
	}
	return faults
}
