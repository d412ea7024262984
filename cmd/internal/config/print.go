package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Value is one setting as it stands.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // text, number, true or false; a duration as text; a secret as "(set)" or ""
	Origin string `json:"origin"`
	Env    string `json:"env"`  // the variable that sets it
	Help   string `json:"help"` // one sentence
}

// Values returns all settings in the order of the help. Secrets are not shown.
func (c *Config) Values() []Value {
	values := make([]Value, 0, len(settings))
	for _, s := range settings {
		value := c.value(s.key)
		if s.secret && value != "" {
			value = "(set)"
		}
		if d, ok := value.(time.Duration); ok {
			value = duration(d)
		}
		values = append(values, Value{Key: s.key, Value: value, Origin: c.Origins[s.key], Env: envName(s.key), Help: s.help})
	}
	return values
}

// All is Values with the connectors and the alerts behind them.
func (c *Config) All() []Value {
	return append(append(c.Values(), c.connectorValues()...), c.alertValues()...)
}

// value returns the field that holds a key.
func (c *Config) value(key string) any {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("koanf") == key {
			return v.Field(i).Interface()
		}
	}
	return nil
}

// duration writes 5m0s as 5m.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// YAML returns the configuration as a file that --config reads. Each line says
// where its value came from; a secret is left out.
func (c *Config) YAML() string {
	var b strings.Builder
	for _, v := range c.Values() {
		if known(v.Key).secret {
			if v.Value != "" {
				fmt.Fprintf(&b, "# %s: %v from %s\n", v.Key, v.Value, v.Origin)
			}
			continue
		}
		fmt.Fprintf(&b, "%-40s # %s\n", v.Key+": "+scalar(v.Value), v.Origin)
	}
	b.WriteString(c.connectorsYAML())
	b.WriteString(c.alertsYAML())
	return b.String()
}

// Example returns a configuration file with every setting at its default and
// its help above it.
func Example() string {
	c := Default()
	var b strings.Builder
	b.WriteString("# Settings of `muster serve`. A flag wins over the environment, the environment over this file.\n")
	for _, v := range c.Values() {
		fmt.Fprintf(&b, "\n# %s (%s)\n", v.Help, v.Env)
		if known(v.Key).secret {
			fmt.Fprintf(&b, "# %s: \"\"\n", v.Key)
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", v.Key, scalar(v.Value))
	}
	b.WriteString(connectorsExample)
	b.WriteString(alertsExample)
	return b.String()
}

// scalar writes a value as YAML.
func scalar(value any) string {
	if value == "" {
		return `""`
	}
	text, err := yamlv3.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(value))
	}
	return strings.TrimSpace(string(text))
}
