package config

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog/natslog"
)

// setting is one row of the table: a name, its default and what it means.
type setting struct {
	key    string // also the flag's name and the file's key
	def    any    // string, int, bool or time.Duration
	help   string // one sentence, for the flag and the example file
	secret bool   // never shown, and no flag: a command line can be read by others
}

// settings is the table of all settings, in the order in which they are shown.
var settings = []setting{
	{key: "data", def: "./muster-data", help: "folder that holds the history; one process at a time may use it"},
	{key: "http", def: "127.0.0.1:8080", help: "address of the HTTP listener (/healthz, /readyz)"},
	{key: "nats-listen", def: "127.0.0.1:4222", help: "address on which the embedded NATS server takes clients"},
	{key: "nats-url", def: "", help: "URL of an external NATS server with JetStream, to use instead of the embedded one"},
	{key: "user", def: "muster", help: "name that clients give with the password"},
	{key: "password", def: "", secret: true, help: "secret that clients must give; wanted when an address is not loopback"},
	{key: "password-file", def: "", help: "file that holds the password"},
	{key: "tls-cert", def: "", help: "PEM file with the certificate of both listeners; read anew when it changes"},
	{key: "tls-key", def: "", help: "PEM file with the certificate's key"},
	{key: "token-rate", def: 1000, help: "HTTP requests per second that one token may make; 0 = no bound"},
	{key: "bus-rate", def: 0, help: "triggers and questions per second over NATS that one token, or one source, may send; 0 = no bound"},
	{key: "body-mib", def: 16, help: "largest body of an HTTP request in MiB"},
	{key: "sync", def: string(bus.SyncGroup), help: "when a record is on disk: group (one fsync for many, before the answer), always (one each), interval (may lose the last moments at a power cut)"},
	{key: "archive", def: "", help: "folder to which the history is archived while it is served, a second behind"},
	{key: "partitions", def: natslog.DefaultPartitions, help: "number of streams that the history is spread over; fixed when the data is created"},
	{key: "erasable", def: false, help: "encrypt what is personal, with a key for each account, so that muster erase can destroy it; fixed when the data is created"},
	{key: "machines", def: "", help: "folder of machine files (*.yaml) beside the built-in machines"},
	{key: "beat", def: 10 * time.Second, help: "how often a worker must say that it lives; when three beats in a row are missing, its accounts may not send"},
	{key: "recover-after", def: 30 * time.Second, help: "how long an account may wait for a live source, after the start and after its worker's silence, before its state is re-determined"},
	{key: "snapshot-every", def: 100_000, help: "events of a partition between two snapshots"},
	{key: "snapshot-interval", def: 5 * time.Minute, help: "longest time between two snapshots while events come"},
	{key: "inbox-mib", def: 1024, help: "largest size in MiB of the inbox (muster.in.*), where triggers wait that are not judged yet; beyond, publishers are refused"},
	{key: "poison", def: "halt", help: "what becomes of a view that cannot take an event: halt, or park (pass the event over); for some views alone like halt,route=park"},
	{key: "log-level", def: "info", help: "debug, info, warn or error"},
	{key: "log-format", def: "text", help: "text or json"},
	{key: "log-transitions", def: true, help: "write a line for every transition"},
}

// The flag and variable that name the file itself.
const (
	fileKey   = "config"
	fileEnv   = "MUSTER_CONFIG"
	envPrefix = "MUSTER_"
)

// AddFlags defines the flags of all settings, and --config, on fs.
func AddFlags(fs *pflag.FlagSet) {
	fs.String(fileKey, "", "YAML file with settings, the same names as the flags ("+fileEnv+")")
	for _, s := range settings {
		if s.secret {
			continue
		}
		switch def := s.def.(type) {
		case string:
			fs.String(s.key, def, s.help)
		case int:
			fs.Int(s.key, def, s.help)
		case bool:
			fs.Bool(s.key, def, s.help)
		case time.Duration:
			fs.Duration(s.key, def, s.help)
		}
	}
}

// envName returns the environment variable of a key.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// known returns the row of a key, or nil.
func known(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}
