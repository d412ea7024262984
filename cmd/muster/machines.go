package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/machinefile"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

func newMachines(c *cli) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "machines",
		Short: "Look at the transition tables, and check your own",
		Long: `Look at the machines: the named, versioned transition tables by which triggers are judged.
The built-in ones are part of this program; --machines adds a folder of your own. No server
is asked.`,
	}
	cmd.PersistentFlags().StringVar(&dir, "machines", "", "folder of machine files (*.yaml) beside the built-in machines")
	cmd.AddCommand(newMachinesList(c, &dir), newMachinesShow(c, &dir), newMachinesDiagram(c, &dir), newMachinesCheck(c))
	return group(cmd)
}

// registry returns the built-in machines and those of a folder, and where each
// came from.
func registry(dir string) (*machine.Registry, map[string]string, error) {
	reg, origins := lifecycle.Registry(), map[string]string{}
	for _, m := range reg.List() {
		origins[m.Name()] = "built-in"
	}
	if dir == "" {
		return reg, origins, nil
	}
	files, err := machinefile.LoadDir(dir)
	if err != nil {
		return nil, nil, as(errUsage, err)
	}
	if err := machinefile.Register(reg, files); err != nil {
		return nil, nil, as(errUsage, err)
	}
	for _, f := range files {
		origins[f.Machine.Name()] = f.Path
	}
	return reg, origins, nil
}

// find returns the machine of a name from the built-in ones and a folder.
func find(dir, name string) (*machine.Machine, error) {
	reg, _, err := registry(dir)
	if err != nil {
		return nil, err
	}
	m, ok := reg.Get(name)
	if ok {
		return m, nil
	}
	near := ""
	if n := reg.NearestMachine(name); n != "" {
		near = fmt.Sprintf("; did you mean %q?", n)
	}
	return nil, as(errNotFound, fmt.Errorf("there is no machine %q%s", name, near))
}

// machineRow is a machine in numbers.
type machineRow struct {
	Name     string `json:"name"`
	Family   string `json:"family"`
	Default  bool   `json:"default"` // accounts that name no machine get it
	Initial  string `json:"initial"`
	States   int    `json:"states"`
	Triggers int    `json:"triggers"`
	Edges    int    `json:"edges"` // legal (state, trigger) pairs
	Origin   string `json:"origin"`
	About    string `json:"about"`
}

func newMachinesList(c *cli, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the machines",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			reg, origins, err := registry(*dir)
			if err != nil {
				return err
			}
			var rows []machineRow
			for _, m := range reg.List() {
				d := m.Definition()
				rows = append(rows, machineRow{
					Name: m.Name(), Family: m.Family(), Default: m.Name() == reg.Default(), Initial: m.Initial(),
					States: len(d.States), Triggers: len(d.Triggers), Edges: len(m.Transitions()),
					Origin: origins[m.Name()], About: d.About,
				})
			}
			return showRows(c, rows, rows, func(t *grid) {
				t.head("MACHINE", "FAMILY", "STATES", "TRIGGERS", "EDGES", "FROM", "ABOUT")
				for _, r := range rows {
					name := r.Name
					if r.Default {
						name += " (default)"
					}
					t.row(name, r.Family, r.States, r.Triggers, r.Edges, r.Origin, r.About)
				}
			})
		},
	}
}

func newMachinesShow(c *cli, dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a machine as a file that --machines reads",
		Long: `Print a machine as YAML, in the form that --machines reads: copy it, change the name and
the table, and check it with "muster machines check". With -o json it is printed as JSON.`,
		Example:           "  muster machines show whatsapp@2 > my-machine.yaml",
		Annotations:       inYAML,
		Args:              takes("NAME"),
		ValidArgsFunction: oneOf(machineNames),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := find(*dir, args[0])
			if err != nil {
				return err
			}
			switch c.format {
			case asJSON:
				return printJSON(c.out, m.Definition())
			case jsonl:
				return printLine(c.out, m.Definition())
			}
			text, err := machinefile.Print(m.Definition())
			if err != nil {
				return err
			}
			return print(c.out, string(text))
		},
	}
	return cmd
}

func newMachinesDiagram(c *cli, dir *string) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "diagram NAME",
		Short: "Draw a machine as text for Mermaid or Graphviz",
		Long: `Draw a machine: the main path solid, exceptional edges dashed, states that wait for a
human red. Mermaid is drawn by Markdown viewers, DOT by Graphviz.`,
		Example:           "  muster machines diagram whatsapp@1 --format dot | dot -Tsvg > whatsapp.svg",
		Args:              takes("NAME"),
		ValidArgsFunction: oneOf(machineNames),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := find(*dir, args[0])
			if err != nil {
				return err
			}
			switch form {
			case "mermaid":
				return print(c.out, m.Mermaid())
			case "dot":
				return print(c.out, m.DOT())
			}
			return usage("--format is %q; it is mermaid or dot", form)
		},
	}
	cmd.Flags().StringVar(&form, "format", "mermaid", "mermaid or dot")
	return cmd
}

// checked is what `machines check` says of a file.
type checked struct {
	File   string              `json:"file"`
	OK     bool                `json:"ok"`
	Name   string              `json:"name,omitempty"` // of the machine
	Faults []machinefile.Fault `json:"faults"`
}

func newMachinesCheck(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check machine files, and name each fault and its line",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name the files to check, e.g. %s shop.yaml", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var results []checked
			faults := 0
			for _, path := range args {
				r, err := checkFile(path)
				if err != nil {
					return err
				}
				results = append(results, r)
				faults += len(r.Faults)
			}
			err := showRows(c, results, results, func(t *grid) { checkSheet(t, results) })
			if err != nil || faults == 0 {
				return err
			}
			return &saidError{usage("%d faults", faults)}
		},
	}
}

// checkFile checks one file. The error is about reading it.
func checkFile(path string) (checked, error) {
	f, err := machinefile.Load(path)
	if err == nil {
		return checked{File: path, OK: true, Name: f.Machine.Name(), Faults: []machinefile.Fault{}}, nil
	}
	var faulty *machinefile.Error
	if !errors.As(err, &faulty) {
		return checked{}, as(errUsage, err)
	}
	return checked{File: path, Faults: faulty.Faults}, nil
}

func checkSheet(t *grid, results []checked) {
	for _, r := range results {
		if r.OK {
			t.line("%s: ok, machine %s", r.File, r.Name)
			continue
		}
		e := machinefile.Error{Path: r.File, Faults: r.Faults}
		for l := range strings.SplitSeq(e.Error(), "\n") {
			t.line("%s", l)
		}
	}
}
