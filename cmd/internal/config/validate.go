package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
)

// Error is a configuration that cannot be used: one sentence for each fault.
type Error struct{ Faults []string }

// Error returns the sentences, one a line.
func (e *Error) Error() string { return strings.Join(e.Faults, "\n") }

// breaches returns a sentence for each rule that the configuration breaks.
func (c *Config) breaches() []string {
	var r rules
	r.address("http", c.HTTP, c.mayAsk())
	if c.Embedded() {
		r.check(c.User != "", "user is empty; give the name that goes with the password")
		r.check(c.Data != "", "data is empty; name the folder that holds the history")
		r.address("nats-listen", c.NATSListen, c.mayAsk())
		r.check(c.HTTP != c.NATSListen || strings.HasSuffix(c.HTTP, ":0"),
			"http and nats-listen are both %s; give them different ports", c.HTTP)
	} else {
		u, err := url.Parse(c.NATSURL)
		r.check(err == nil && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) && u.Host != "",
			"nats-url is %q; write it like nats://host:4222", c.NATSURL)
		r.check(!c.Changed("sync"), "sync is for the embedded server; with nats-url the server's own sync_interval decides")
		r.check(!c.Erasable, "erasable is for the embedded server: the keys must be kept beside the history, and not by the server that keeps it")
		r.check(!c.Changed("nats-listen"), "nats-listen is for the embedded server; with nats-url there is none")
	}
	r.check((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert and tls-key belong together; give both, or neither")
	r.check(c.TokenRate >= 0 && c.TokenRate <= 1_000_000, "token-rate is %d; from 0 (no bound) to 1000000 are possible", c.TokenRate)
	r.check(c.BusRate >= 0 && c.BusRate <= 1_000_000, "bus-rate is %d; from 0 (no bound) to 1000000 are possible", c.BusRate)
	r.check(c.BodyMiB >= 1 && c.BodyMiB <= 1024, "body-mib is %d; from 1 to 1024 are possible", c.BodyMiB)
	_, err := bus.ParseSync(c.Sync)
	r.check(err == nil, "%v", err)
	r.check(c.Partitions >= 1 && c.Partitions <= eventlog.MaxPartitions,
		"partitions is %d; from 1 to %d are possible", c.Partitions, eventlog.MaxPartitions)
	r.check(c.Beat >= 50*time.Millisecond && c.Beat <= 5*time.Minute, "beat is %v; from 50ms to 5m are possible", c.Beat)
	r.check(c.RecoverAfter >= time.Second && c.RecoverAfter <= 24*time.Hour,
		"recover-after is %v; from 1s to 24h are possible", c.RecoverAfter)
	r.check(c.SnapshotEvery >= 100, "snapshot-every is %d; at least 100 events must lie between two snapshots", c.SnapshotEvery)
	r.check(c.SnapshotPeriod >= time.Second, "snapshot-interval is %v; the least is 1s", c.SnapshotPeriod)
	r.check(c.InboxMiB >= 1 && c.InboxMiB <= 1<<20, "inbox-mib is %d; from 1 to %d are possible", c.InboxMiB, 1<<20)
	_, _, err = projections.ParsePoisonRules(c.Poison)
	r.check(err == nil, "poison: %v", err)
	r.oneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	r.oneOf("log-format", c.LogFormat, "text", "json")
	return r.broken
}

// rules collects the sentences of the rules that are broken.
type rules struct{ broken []string }

func (r *rules) check(ok bool, format string, args ...any) {
	if !ok {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

func (r *rules) oneOf(key, value string, allowed ...string) {
	r.check(slices.Contains(allowed, value), "%s is %q; it must be one of %s", key, value, strings.Join(allowed, ", "))
}

// mayAsk says whether there may be credentials to ask for: a password, or tokens,
// which only data that has been used can hold. Whether it does is seen at the start.
func (c *Config) mayAsk() bool {
	if c.Password != "" || !c.Embedded() {
		return true
	}
	_, err := os.Stat(filepath.Join(c.Data, "nats"))
	return err == nil
}

// address checks a host:port, and that it is not open to other machines when
// nobody there can be asked who they are.
func (r *rules) address(key, value string, asks bool) {
	host, port, err := net.SplitHostPort(value)
	n, perr := strconv.Atoi(port)
	if err != nil || perr != nil || n < 0 || n > 65535 {
		r.check(false, "%s is %q; write it as host:port, like 127.0.0.1:8080", key, value)
		return
	}
	r.check(bus.Loopback(host) || asks,
		"%s is %s, which other machines can reach; set a password (MUSTER_PASSWORD or --password-file), or listen on 127.0.0.1:%s", key, value, port)
}

// unknownKeys returns what the file holds (nil: nothing), and a sentence for each
// of its keys that is no setting, with its line. The error is about the file as a
// whole.
func unknownKeys(path string, text []byte) (top *yamlv3.Node, faults []string, err error) {
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(text, &doc); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil, nil // an empty file
	}
	top = doc.Content[0]
	if top.Kind != yamlv3.MappingNode {
		return nil, nil, fmt.Errorf("%s:%d: a configuration file is a list of `name: value` lines", path, top.Line)
	}
	names := []string{connectorsKey, alertsKey}
	for _, s := range settings {
		names = append(names, s.key)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key := top.Content[i]
		if known(key.Value) != nil || key.Value == connectorsKey || key.Value == alertsKey {
			continue
		}
		sentence := fmt.Sprintf("%s:%d: there is no setting %q", path, key.Line, key.Value)
		if near := machine.Closest(key.Value, names); near != "" {
			sentence += fmt.Sprintf("; did you mean %q?", near)
		}
		faults = append(faults, sentence)
	}
	return top, faults, nil
}
