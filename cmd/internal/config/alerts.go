package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/domain/machine"
)

// alertsKey is the file's key of what is told to whom.
const alertsKey = "alerts"

// Alerts say who is told when an account needs a human.
type Alerts struct {
	alert.Settings
	Origin string // the file and line of the section; "" = there is none

	entries []alertEndpoint // in the order of Settings.Endpoints
}

// alertSection is the section as it stands in the file.
type alertSection struct {
	Endpoints []yamlv3.Node `yaml:"endpoints"`
	Debounce  string        `yaml:"debounce"`
	Gather    string        `yaml:"gather"`
	Remind    string        `yaml:"remind"`
}

type alertEndpoint struct {
	Name       string            `yaml:"name"`
	URL        string            `yaml:"url"`
	Secret     string            `yaml:"secret"`
	SecretFile string            `yaml:"secret_file"`
	SecretEnv  string            `yaml:"secret_env"`
	Secrets    []string          `yaml:"secrets"`
	Kinds      []string          `yaml:"kinds"`
	Labels     map[string]string `yaml:"labels"`
	Min        int               `yaml:"min"`
	Insecure   bool              `yaml:"insecure"`
}

// alertKeys and alertEndpointKeys are what the section and an endpoint may say.
var (
	alertKeys         = []string{"endpoints", "debounce", "gather", "remind"}
	alertEndpointKeys = []string{"name", "url", "secret", "secret_file", "secret_env", "secrets", "kinds", "labels", "min", "insecure"}
)

// readAlerts reads the file's section about alerts.
func (l *loader) readAlerts(path string, top *yamlv3.Node, environ []string) {
	node := child(top, alertsKey)
	if node == nil || node.Tag == "!!null" {
		return
	}
	r := connectorReader{l: l, environ: environ, where: fmt.Sprintf("%s:%d: alerts", path, node.Line)}
	if node.Kind != yamlv3.MappingNode {
		r.fault("it is written with endpoints below it")
		return
	}
	r.keys(node, "alerts.", alertKeys)
	var s alertSection
	if err := node.Decode(&s); err != nil && !r.broken {
		r.fault("%s", withoutValue(err))
	}
	if r.broken {
		return
	}
	out := &l.told
	out.Origin = fmt.Sprintf("%s:%d", path, node.Line)
	out.Debounce = r.span("debounce", s.Debounce, 24*time.Hour)
	if out.Debounce == 0 && s.Debounce != "" {
		out.Debounce = -1 // "0s": not at all
	}
	out.Gather = r.span("gather", s.Gather, time.Minute)
	out.Remind = r.span("remind", s.Remind, 365*24*time.Hour)
	for i := range s.Endpoints {
		n := &s.Endpoints[i]
		e := connectorReader{l: l, environ: environ, where: fmt.Sprintf("%s:%d: alerts.endpoints[%d]", path, n.Line, i)}
		e.endpoint(n, out)
	}
}

// span reads a duration from 0 to most.
func (r *connectorReader) span(key, text string, most time.Duration) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		r.fault("%s is %q; give a time up to %v with its unit, such as 30s or 5m", key, text, duration(most))
	}
	return d
}

// endpoint reads one endpoint into out. Its faults never hold a secret.
func (r *connectorReader) endpoint(node *yamlv3.Node, out *Alerts) {
	if node.Kind != yamlv3.MappingNode {
		r.fault("an endpoint is a list of `name: value` lines")
		return
	}
	r.keys(node, "", alertEndpointKeys)
	var e alertEndpoint
	if err := node.Decode(&e); err != nil && !r.broken {
		r.fault("%s", withoutValue(err))
	}
	if r.broken {
		return
	}
	a := alert.Endpoint{Name: e.Name, URL: r.expand("url", e.URL), Kinds: e.Kinds, Labels: e.Labels, Min: e.Min, Insecure: e.Insecure}
	a.Secrets = r.alertSecrets(&e)
	if slices.ContainsFunc(out.Endpoints, func(o alert.Endpoint) bool { return o.Name == e.Name }) {
		r.fault("name %q is that of another endpoint, too", e.Name)
	}
	if !r.broken {
		if err := a.Check(); err != nil {
			r.fault("%v", err)
		}
	}
	out.Endpoints, out.entries = append(out.Endpoints, a), append(out.entries, e)
}

// alertSecrets are those of an endpoint, each read and checked.
func (r *connectorReader) alertSecrets(e *alertEndpoint) (list []alert.Secret) {
	var texts []string
	ways := 0
	for _, way := range [][2]string{{"secret", e.Secret}, {"secret_file", e.SecretFile}, {"secret_env", e.SecretEnv}} {
		if way[1] != "" {
			ways++
			texts = append(texts, r.secret(way[0], way[1])...)
		}
	}
	if ways > 1 {
		r.fault("more than one of secret, secret_file and secret_env is given; give one (and a further one as secrets)")
	}
	for i, s := range e.Secrets {
		texts = append(texts, r.expand(fmt.Sprintf("secrets[%d]", i), s))
	}
	for _, text := range texts {
		if text == "" {
			continue // told already
		}
		s, err := alert.ParseSecret(text)
		if err != nil {
			r.fault("%v", err)
		}
		list = append(list, s)
	}
	return list
}

// CheckKinds says which kinds that an endpoint names are none of the known ones.
func (a *Alerts) CheckKinds(known []string) error {
	var errs []error
	for _, e := range a.Endpoints {
		for _, k := range e.Kinds {
			if slices.Contains(known, k) {
				continue
			}
			near := ""
			if n := machine.Closest(k, known); n != "" {
				near = fmt.Sprintf("; did you mean %q?", n)
			}
			errs = append(errs, fmt.Errorf("%s: alerts.endpoints %s: there is no kind of attention %q%s", a.Origin, e.Name, k, near))
		}
	}
	return errors.Join(errs...)
}

// alertsExample is the part of the example file about alerts.
const alertsExample = `
# Who is told when an account needs a human: signed webhooks (Standard Webhooks). A secret is whsec_ and base64 of 24 to 64
# random bytes, given as secret, secret_file, secret_env or ${NAME}; secrets takes a second one while one replaces the other.
# kinds, labels and min (accounts) narrow what an endpoint is told; all of it is optional. debounce: what heals within it is
# not told. gather: what comes within it is told together. remind: what stands is told again, unless it is acknowledged.
# alerts:
#   debounce: 3m
#   gather: 5s
#   remind: 4h
#   endpoints:
#     - name: ops
#       url: https://ops.example.org/muster
#       secret_file: /run/secrets/alerts
#       kinds: [login_needed, banned]
`

// shownAlerts is the section without its secrets, as it is printed.
type shownAlerts struct {
	Debounce  string          `yaml:"debounce,omitempty" json:"debounce,omitempty"`
	Gather    string          `yaml:"gather,omitempty" json:"gather,omitempty"`
	Remind    string          `yaml:"remind,omitempty" json:"remind,omitempty"`
	Endpoints []shownEndpoint `yaml:"endpoints" json:"endpoints"`
}

type shownEndpoint struct {
	Name       string            `yaml:"name" json:"name"`
	URL        string            `yaml:"url" json:"url"`
	SecretFile string            `yaml:"secret_file,omitempty" json:"secret_file,omitempty"`
	SecretEnv  string            `yaml:"secret_env,omitempty" json:"secret_env,omitempty"`
	Kinds      []string          `yaml:"kinds,omitempty" json:"kinds,omitempty"`
	Labels     map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Min        int               `yaml:"min,omitempty" json:"min,omitempty"`
	Insecure   bool              `yaml:"insecure,omitempty" json:"insecure,omitempty"`
}

func (a *Alerts) shown() shownAlerts {
	span := func(d time.Duration) string {
		switch {
		case d == 0:
			return ""
		case d < 0:
			return "0s"
		}
		return duration(d)
	}
	s := shownAlerts{Debounce: span(a.Debounce), Gather: span(a.Gather), Remind: span(a.Remind), Endpoints: []shownEndpoint{}}
	for _, e := range a.entries {
		s.Endpoints = append(s.Endpoints, shownEndpoint{
			Name: e.Name, URL: withoutPassword(e.URL), SecretFile: e.SecretFile, SecretEnv: e.SecretEnv,
			Kinds: e.Kinds, Labels: e.Labels, Min: e.Min, Insecure: e.Insecure,
		})
	}
	return s
}

// alertValues is the section as a row of Values.
func (c *Config) alertValues() []Value {
	if c.Alerts.Origin == "" {
		return nil
	}
	return []Value{{Key: alertsKey, Value: c.Alerts.shown(), Origin: c.Alerts.Origin, Help: "who is told when an account needs a human"}}
}

// alertsYAML is the section as a file has it. A secret that stood in the file is
// named in a comment only.
func (c *Config) alertsYAML() string {
	if c.Alerts.Origin == "" {
		return ""
	}
	text, err := yamlv3.Marshal(c.Alerts.shown())
	if err != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "alerts: # %s\n", c.Alerts.Origin)
	for line := range strings.Lines(string(text)) {
		b.WriteString("  " + line)
	}
	for _, e := range c.Alerts.entries {
		if e.Secret != "" || len(e.Secrets) > 0 {
			fmt.Fprintf(&b, "  # secret of %s: (set)\n", e.Name)
		}
	}
	return b.String()
}
