package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/domain/machine"
)

// connectorsKey is the file's key of the list of connectors.
const connectorsKey = "connectors"

// Connector is one configured source of webhooks.
type Connector struct {
	*connector.Source
	Origin string // the file and line of the entry

	entry entry
}

// entry is an element of the list as it stands in the file.
type entry struct {
	Kind       string   `yaml:"kind"`
	Name       string   `yaml:"name"`
	Secret     string   `yaml:"secret"`
	SecretFile string   `yaml:"secret_file"`
	SecretEnv  string   `yaml:"secret_env"`
	Secrets    []string `yaml:"secrets"` // further ones, while one replaces another
	Poll       *poll    `yaml:"poll"`

	connector.Settings `yaml:",inline"`
}

type poll struct {
	URL     string `yaml:"url"`
	Key     string `yaml:"key"`
	KeyFile string `yaml:"key_file"`
	KeyEnv  string `yaml:"key_env"`
	Every   string `yaml:"every"`
}

// The interval of a poll.
const (
	defaultPoll = 5 * time.Minute
	minPoll     = time.Second
)

// entryKeys and pollKeys are what an entry may say.
var (
	entryKeys = []string{"kind", "name", "secret", "secret_file", "secret_env", "secrets", "auth", "utc_offset", "verify_token", "waba_numbers", "poll"}
	pollKeys  = []string{"url", "key", "key_file", "key_env", "every"}
)

// connectors reads the list of a file's connectors.
func (l *loader) connectors(path string, top *yamlv3.Node, environ []string) {
	list := child(top, connectorsKey)
	if list == nil || list.Tag == "!!null" {
		return
	}
	if list.Kind != yamlv3.SequenceNode {
		l.fault("%s:%d: connectors is a list; write each entry as `- kind: waha`", path, list.Line)
		return
	}
	r := connectorReader{l: l, environ: environ}
	for i, node := range list.Content {
		r.where = fmt.Sprintf("%s:%d: connectors[%d]", path, node.Line, i)
		if c := r.read(node); c != nil {
			c.Origin = fmt.Sprintf("%s:%d", path, node.Line)
			l.sources = append(l.sources, *c)
		}
	}
}

// child returns the value of a mapping's key; nil: there is none.
func child(m *yamlv3.Node, key string) *yamlv3.Node {
	for i := 0; m.Kind == yamlv3.MappingNode && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// connectorReader reads one entry after the other. Its faults name the entry and
// never hold a secret.
type connectorReader struct {
	l       *loader
	environ []string
	where   string
	broken  bool
}

func (r *connectorReader) fault(format string, args ...any) {
	r.l.fault("%s: %s", r.where, fmt.Sprintf(format, args...))
	r.broken = true
}

// read returns the entry, nil when something is wrong with it.
func (r *connectorReader) read(node *yamlv3.Node) *Connector {
	r.broken = false
	if node.Kind != yamlv3.MappingNode {
		r.fault("an entry is a list of `name: value` lines, such as `kind: waha`")
		return nil
	}
	r.keys(node, "", entryKeys)
	if p := child(node, "poll"); p != nil && p.Kind == yamlv3.MappingNode {
		r.keys(p, "poll.", pollKeys)
	}
	var e entry
	if err := node.Decode(&e); err != nil && !r.broken {
		r.fault("%s", withoutValue(err))
	}
	if r.broken {
		return nil
	}
	return r.check(&e)
}

// keys names every key of a mapping that is not one of these, or is there twice.
func (r *connectorReader) keys(m *yamlv3.Node, prefix string, known []string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		key := m.Content[i].Value
		if slices.Contains(known, key) {
			continue
		}
		near := ""
		if n := machine.Closest(key, known); n != "" {
			near = fmt.Sprintf("; did you mean %q?", prefix+n)
		}
		r.fault("there is no setting %q%s", prefix+key, near)
	}
}

var yamlValue = regexp.MustCompile("`[^`]*`")

// withoutValue is what a decoder says, without the value, which may be a secret.
func withoutValue(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var te *yamlv3.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		text = te.Errors[0]
	}
	return yamlValue.ReplaceAllString(text, "a value")
}

// sourceName is what a source may be called: it is a segment of a path and the
// prefix of its accounts.
var sourceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

func (r *connectorReader) check(e *entry) *Connector {
	k, ok := all.Named(e.Kind)
	switch {
	case e.Kind == "":
		r.fault("kind is missing; it is one of %s", strings.Join(all.Names(), ", "))
		return nil
	case !ok:
		r.fault("there is no kind %q; it is one of %s", e.Kind, strings.Join(all.Names(), ", "))
		return nil
	}
	if e.Name == "" {
		e.Name = e.Kind
	}
	s := &connector.Source{Kind: e.Kind, Name: e.Name}
	r.name(k, e.Name)
	r.takes(k, e)
	if s.Secrets = r.secrets(e); len(s.Secrets) == 0 && !r.broken {
		r.fault("it has no secret; give secret, secret_file, secret_env, or the variable %s", secretVariable(e.Name))
	}
	e.VerifyToken = r.expand("verify_token", e.VerifyToken)
	if err := e.Settings.Apply(s); err != nil {
		r.fault("%v", err)
	}
	if e.Poll != nil {
		s.Poll = r.poll(e.Poll)
	}
	if r.broken {
		return nil
	}
	return &Connector{Source: s, entry: *e}
}

func (r *connectorReader) name(k all.Kind, name string) {
	tailer, is := k.New(nil).(connector.Tailer)
	switch {
	case !sourceName.MatchString(name):
		r.fault("name is %q; it has 1 to 32 letters, digits, dots, dashes and underscores", name)
	case name == "muster":
		r.fault("name is %q, which is Muster's own; choose another one", name)
	case is && tailer.Tail(name):
		r.fault("name is %q, which %s appends to its address as the name of an event; choose another one", name, k.Name)
	}
	for _, other := range r.l.sources {
		if other.Name == name {
			r.fault("name %q is that of %s, too; the accounts of both would have the same ids, so choose another one", name, other.Kind)
		}
	}
}

// takes names settings that mean nothing to the kind.
func (r *connectorReader) takes(k all.Kind, e *entry) {
	given := map[string]bool{
		"auth": e.Auth != "", "utc_offset": e.UTCOffset != "", "verify_token": e.VerifyToken != "",
		"waba_numbers": len(e.WABANumbers) > 0, "poll": e.Poll != nil,
	}
	for _, key := range entryKeys {
		if given[key] && !slices.Contains(k.Takes, key) {
			r.fault("%s means nothing to %s; leave it out", key, k.Name)
		}
	}
	if e.Auth != "" && len(k.Auth) > 0 && !slices.Contains(k.Auth, e.Auth) {
		r.fault("auth is %q; it is one of %s", e.Auth, strings.Join(k.Auth, ", "))
	}
}

// secretVariable is the variable that holds a source's secret.
func secretVariable(name string) string {
	upper := strings.Map(func(c rune) rune {
		if c == '.' || c == '-' {
			return '_'
		}
		return c
	}, strings.ToUpper(name))
	return envPrefix + "CONNECTOR_" + upper + "_SECRET"
}

// secrets are those of the entry, the one that counts first at the head.
func (r *connectorReader) secrets(e *entry) []string {
	var list []string
	ways := 0
	for key, value := range map[string]string{"secret": e.Secret, "secret_file": e.SecretFile, "secret_env": e.SecretEnv} {
		if value == "" {
			continue
		}
		ways++
		list = append(list, r.secret(key, value)...)
	}
	if ways > 1 {
		r.fault("more than one of secret, secret_file and secret_env is given; give one (and further ones as secrets)")
	}
	if value, ok := variable(r.environ, secretVariable(e.Name)); ok && value != "" {
		list = []string{value}
	}
	for i, s := range e.Secrets {
		if s = r.expand(fmt.Sprintf("secrets[%d]", i), s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// secret reads what one of the three keys says. A file may hold several, one a line.
func (r *connectorReader) secret(key, value string) []string {
	switch key {
	case "secret_file":
		return r.file(key, value)
	case "secret_env":
		value = "${" + value + "}"
	}
	if value = r.expand(key, value); value != "" {
		return []string{value}
	}
	return nil
}

// maxSecretFile is the largest file of secrets that is read, in bytes.
const maxSecretFile = 64 << 10

func (r *connectorReader) file(key, path string) []string {
	f, err := os.Open(path)
	if err != nil {
		r.fault("%s cannot be read: %v", key, err)
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		r.fault("%s cannot be read: %v", key, err)
		return nil
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		r.fault("%s %s is empty", key, path)
	}
	return list
}

var wholeVariable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// expand returns the variable's value for a value written ${NAME}, else the value.
func (r *connectorReader) expand(key, value string) string {
	m := wholeVariable.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	text, ok := variable(r.environ, m[1])
	if !ok || text == "" {
		r.fault("%s is to come from the variable %s, which is not set", key, m[1])
	}
	return text
}

func variable(environ []string, name string) (string, bool) {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func (r *connectorReader) poll(p *poll) *connector.Poll {
	out := &connector.Poll{URL: p.URL, Key: r.expand("poll.key", p.Key), Every: defaultPoll}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		r.fault("poll.url is no address; write it like http://waha:3000") // not quoted: it may hold a password
	}
	switch {
	case p.KeyFile != "" && p.Key == "" && p.KeyEnv == "":
		if keys := r.file("poll.key_file", p.KeyFile); len(keys) > 0 {
			out.Key = keys[0]
		}
	case p.KeyEnv != "" && p.Key == "" && p.KeyFile == "":
		out.Key = r.expand("poll.key_env", "${"+p.KeyEnv+"}")
	case p.KeyFile != "" || p.KeyEnv != "":
		r.fault("more than one of poll.key, poll.key_file and poll.key_env is given; give one")
	}
	if p.Every != "" {
		if out.Every, err = time.ParseDuration(p.Every); err != nil || out.Every < minPoll {
			r.fault("poll.every is %q; give a time of %v or more with its unit, such as 30s or 5m", p.Every, minPoll)
		}
	}
	return out
}
