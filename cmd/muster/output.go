package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// format is how data is printed: the value of -o.
type format string

// The formats. The zero value means the command's own default.
const (
	table  format = "table"
	asJSON format = "json"
	jsonl  format = "jsonl"
	asYAML format = "yaml" // for the commands that say so, see inYAML
)

// inYAML marks a command that can print YAML.
var inYAML = map[string]string{"output": string(asYAML)}

// String returns the format's name.
func (f *format) String() string { return string(*f) }

// Type names the kind of value in the help.
func (f *format) Type() string { return "format" }

// Set reads a format's name.
func (f *format) Set(text string) error {
	switch format(text) {
	case table, asJSON, jsonl, asYAML:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("there is no format %q; it is table, json or jsonl", text)
}

// or returns f, or def if none was asked for.
func (f format) or(def format) format {
	if f == "" {
		return def
	}
	return f
}

// printJSON writes v indented, as one document.
func printJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// printLine writes v on one line.
func printLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// show prints one object: as a table by the given function, else as JSON.
func (c *cli) show(v any, asTable func(t *grid)) error {
	switch c.format.or(table) {
	case asJSON:
		return printJSON(c.out, v)
	case jsonl:
		return printLine(c.out, v)
	}
	var t grid
	asTable(&t)
	return t.print(c.out)
}

// showRows prints a list: as a table, as one JSON document (whole), or one
// line for each of the rows.
func showRows[T any](c *cli, whole any, rows []T, asTable func(t *grid)) error {
	if c.format != jsonl {
		return c.show(whole, asTable)
	}
	for _, r := range rows {
		if err := printLine(c.out, r); err != nil {
			return err
		}
	}
	return nil
}

// grid is a table for people: columns side by side, aligned by their widest
// cell. Lines and grids may alternate.
type grid struct{ blocks []block }

type block struct {
	line string     // a line of its own, if rows is nil
	rows [][]string // the first is the head
}

// line adds a line of text.
func (g *grid) line(format string, args ...any) {
	g.blocks = append(g.blocks, block{line: fmt.Sprintf(format, args...)})
}

// head begins a table with the names of its columns.
func (g *grid) head(columns ...string) {
	g.blocks = append(g.blocks, block{rows: [][]string{columns}})
}

// row adds a row to the table that head began.
func (g *grid) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = cell(c)
	}
	b := &g.blocks[len(g.blocks)-1]
	b.rows = append(b.rows, texts)
}

// cell writes one value for people. An empty one is a dash, so that columns
// can be told apart.
func cell(v any) string {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "-"
		}
		return printable(v)
	case *float64:
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprint(v)
}

// printable replaces control characters: a cell never moves a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '·'
		}
		return r
	}, s)
}

// clock writes a time for people, in UTC to the second; "" when there is none.
func clock(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func (g *grid) print(w io.Writer) error {
	var b strings.Builder
	for _, block := range g.blocks {
		if block.rows == nil {
			b.WriteString(block.line + "\n")
			continue
		}
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, r := range block.rows {
			fmt.Fprintln(tw, strings.Join(r, "\t"))
		}
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("lay out the table: %w", err)
		}
	}
	return print(w, trimRight(b.String()))
}

// trimRight takes the blanks off the end of each line.
func trimRight(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}
