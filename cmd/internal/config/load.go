package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

const originDefault = "default"

// Load returns the configuration given by flags (made with AddFlags and
// parsed), the process's environment and the file that --config or
// MUSTER_CONFIG names. What is wrong with it is an *Error.
func Load(flags *pflag.FlagSet) (Config, error) {
	return load(flags, os.Environ())
}

// Default returns the configuration that no flag, variable or file touched.
func Default() Config {
	var fs pflag.FlagSet
	AddFlags(&fs)
	cfg, err := load(&fs, nil)
	if err != nil {
		panic(fmt.Sprintf("the defaults break their own rules: %v", err))
	}
	return cfg
}

func load(flags *pflag.FlagSet, environ []string) (Config, error) {
	l := loader{merged: koanf.New("."), origins: map[string]string{}}
	for _, s := range settings {
		l.set(s.key, s.def, originDefault)
	}
	if path := filePath(flags, environ); path != "" {
		l.file(path, environ)
	}
	l.environment(environ)
	l.flags(flags)

	var cfg Config
	if err := l.merged.Unmarshal("", &cfg); err != nil {
		l.fault("the configuration cannot be read: %v", err)
	}
	cfg.Origins, cfg.Connectors, cfg.Alerts = l.origins, l.sources, l.told
	l.faults = append(l.faults, cfg.readPassword()...)
	if len(l.faults) == 0 {
		l.faults = cfg.breaches()
	}
	if len(l.faults) > 0 {
		return Config{}, &Error{Faults: l.faults}
	}
	return cfg, nil
}

// filePath returns the file that the flag or the environment names.
func filePath(flags *pflag.FlagSet, environ []string) string {
	if f := flags.Lookup(fileKey); f != nil && f.Changed {
		return f.Value.String()
	}
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, fileEnv+"="); ok {
			return value
		}
	}
	return ""
}

// loader merges the layers, from the weakest to the strongest, and remembers
// where each value came from.
type loader struct {
	merged  *koanf.Koanf
	origins map[string]string
	sources []Connector
	told    Alerts
	faults  []string
}

func (l *loader) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *loader) set(key string, value any, origin string) {
	if err := l.merged.Set(key, value); err != nil {
		l.fault("%s from %s cannot be taken: %v", key, origin, err)
		return
	}
	l.origins[key] = origin
}

func (l *loader) file(path string, environ []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		l.fault("the configuration file cannot be read: %v", err)
		return
	}
	top, unknown, err := unknownKeys(path, text)
	if err != nil {
		l.fault("%v", err)
		return
	}
	l.faults = append(l.faults, unknown...)
	if top != nil {
		l.connectors(path, top, environ)
		l.readAlerts(path, top, environ)
	}
	layer := koanf.New(".")
	if err := layer.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		l.fault("%s: %v", path, err)
		return
	}
	l.layer(layer, func(string) string { return path })
}

func (l *loader) environment(environ []string) {
	names := map[string]string{}
	for _, s := range settings {
		names[envName(s.key)] = s.key
	}
	layer := koanf.New(".")
	provider := env.Provider(".", env.Opt{
		Prefix:        envPrefix,
		TransformFunc: func(name, value string) (string, any) { return names[name], value },
		EnvironFunc:   func() []string { return environ },
	})
	if err := layer.Load(provider, nil); err != nil {
		l.fault("the environment cannot be read: %v", err)
		return
	}
	l.layer(layer, envName)
}

func (l *loader) flags(flags *pflag.FlagSet) {
	layer := koanf.New(".")
	// Only what the user gave: without a Koanf the provider leaves the rest out.
	provider := posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		if known(f.Name) == nil {
			return "", nil
		}
		return f.Name, posflag.FlagVal(flags, f)
	})
	if err := layer.Load(provider, nil); err != nil {
		l.fault("the flags cannot be read: %v", err)
		return
	}
	l.layer(layer, func(key string) string { return "--" + key })
}

// layer puts the values of one source over those of the weaker ones.
func (l *loader) layer(layer *koanf.Koanf, origin func(key string) string) {
	for _, s := range settings {
		if !layer.Exists(s.key) {
			continue
		}
		value, err := convert(layer.Get(s.key), s.def)
		if err != nil {
			l.fault("%s from %s: %v", s.key, origin(s.key), err)
			continue
		}
		l.set(s.key, value, origin(s.key))
	}
}

// convert gives raw the type of like.
func convert(raw, like any) (any, error) {
	text, isText := raw.(string)
	switch like.(type) {
	case string:
		if isText {
			return text, nil
		}
		return nil, fmt.Errorf("%v is not a text; put it in quotes", raw)
	case int:
		if n, ok := raw.(int); ok {
			return n, nil
		}
		if n, err := strconv.Atoi(text); isText && err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("%v is not a whole number", raw)
	case bool:
		if b, ok := raw.(bool); ok {
			return b, nil
		}
		if b, err := strconv.ParseBool(text); isText && err == nil {
			return b, nil
		}
		return nil, fmt.Errorf("%v is neither true nor false", raw)
	case time.Duration:
		if d, ok := raw.(time.Duration); ok {
			return d, nil
		}
		if d, err := time.ParseDuration(text); isText && err == nil {
			return d, nil
		}
		return nil, fmt.Errorf("%v is not a duration; give a number with its unit, such as 30s or 5m", raw)
	}
	return nil, errors.New("a setting of an unknown type")
}

// readPassword fills Password from PasswordFile.
func (c *Config) readPassword() []string {
	if c.PasswordFile == "" {
		return nil
	}
	if c.Password != "" {
		return []string{"both password and password-file are given; give one of them"}
	}
	text, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return []string{fmt.Sprintf("the password file cannot be read: %v", err)}
	}
	c.Password = strings.TrimSpace(string(text))
	if c.Password == "" {
		return []string{fmt.Sprintf("the password file %s is empty", c.PasswordFile)}
	}
	return nil
}
