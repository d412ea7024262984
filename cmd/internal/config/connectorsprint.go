package config

import (
	"fmt"
	"net/url"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// connectorsExample is the part of the example file about connectors.
const connectorsExample = `
# Sources of webhooks, which are taken under /hooks/<kind>, or /hooks/<kind>/<name> where the name differs. Each needs a
# secret: as secret, in a file (secret_file), from a variable (secret_env, secret: ${NAME}, or MUSTER_CONNECTOR_<NAME>_SECRET);
# secrets takes further ones while one replaces another. Some kinds also take auth, utc_offset, verify_token, waba_numbers, poll.
# connectors:
#   - kind: waha
#     name: waha
#     secret_file: /run/secrets/waha
#     poll: {url: http://waha:3000, key_file: /run/secrets/waha-key, every: 5m}
`

// shownConnector is an entry without its secrets, as it is printed.
type shownConnector struct {
	Kind        string              `yaml:"kind" json:"kind"`
	Name        string              `yaml:"name" json:"name"`
	SecretFile  string              `yaml:"secret_file,omitempty" json:"secret_file,omitempty"`
	SecretEnv   string              `yaml:"secret_env,omitempty" json:"secret_env,omitempty"`
	Auth        string              `yaml:"auth,omitempty" json:"auth,omitempty"`
	UTCOffset   string              `yaml:"utc_offset,omitempty" json:"utc_offset,omitempty"`
	WABANumbers map[string][]string `yaml:"waba_numbers,omitempty" json:"waba_numbers,omitempty"`
	Poll        *shownPoll          `yaml:"poll,omitempty" json:"poll,omitempty"`

	Hidden []string `yaml:"-" json:"set"` // secrets that are set and not shown
}

type shownPoll struct {
	URL     string `yaml:"url" json:"url"`
	KeyFile string `yaml:"key_file,omitempty" json:"key_file,omitempty"`
	KeyEnv  string `yaml:"key_env,omitempty" json:"key_env,omitempty"`
	Every   string `yaml:"every" json:"every"`
}

func (c *Connector) shown() shownConnector {
	e := &c.entry
	s := shownConnector{
		Kind: c.Kind, Name: c.Name, SecretFile: e.SecretFile, SecretEnv: e.SecretEnv,
		Auth: e.Auth, UTCOffset: e.UTCOffset, WABANumbers: c.WABANumbers, Hidden: []string{},
	}
	hide := func(key string, set bool) {
		if set {
			s.Hidden = append(s.Hidden, key)
		}
	}
	hide("secret", e.SecretFile == "" && e.SecretEnv == "")
	hide("secrets", len(e.Secrets) > 0)
	hide("verify_token", c.VerifyToken != "")
	if p := c.Poll; p != nil {
		s.Poll = &shownPoll{URL: withoutPassword(p.URL), KeyFile: e.Poll.KeyFile, KeyEnv: e.Poll.KeyEnv, Every: duration(p.Every)}
		hide("poll.key", p.Key != "" && e.Poll.KeyFile == "" && e.Poll.KeyEnv == "")
	}
	return s
}

// connectorValues are the entries as rows of Values.
func (c *Config) connectorValues() []Value {
	var values []Value
	for i := range c.Connectors {
		k := &c.Connectors[i]
		values = append(values, Value{
			Key: "connectors." + k.Name, Value: k.shown(), Origin: k.Origin, Env: secretVariable(k.Name), Help: "a source of webhooks",
		})
	}
	return values
}

// connectorsYAML is the list as a file has it. A secret that stood in the file is
// named in a comment only.
func (c *Config) connectorsYAML() string {
	if len(c.Connectors) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("connectors:\n")
	for i := range c.Connectors {
		s := c.Connectors[i].shown()
		text, err := yamlv3.Marshal(s)
		if err != nil {
			text = fmt.Appendf(nil, "kind: %q\n", s.Kind)
		}
		fmt.Fprintf(&b, "  # %s\n", c.Connectors[i].Origin)
		lead := "  - "
		for line := range strings.Lines(string(text)) {
			b.WriteString(lead + line)
			lead = "    "
		}
		for _, key := range s.Hidden {
			fmt.Fprintf(&b, "    # %s: (set)\n", key)
		}
	}
	return b.String()
}

// withoutPassword hides the password of an address.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
