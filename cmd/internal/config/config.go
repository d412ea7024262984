package config

import "time"

// Config is everything that `muster serve` can be told.
type Config struct {
	Data           string        `koanf:"data"`              // folder of the embedded server's streams; locked while in use
	HTTP           string        `koanf:"http"`              // host:port of the HTTP listener
	NATSListen     string        `koanf:"nats-listen"`       // host:port of the embedded NATS server
	NATSURL        string        `koanf:"nats-url"`          // external NATS servers instead; "" = embedded
	User           string        `koanf:"user"`              // name that clients of the bus give with Password
	Password       string        `koanf:"password"`          // secret of clients; "" = none is asked for, loopback only
	PasswordFile   string        `koanf:"password-file"`     // file that holds Password
	Archive        string        `koanf:"archive"`           // folder to which the history is archived; "" = it is not
	Erasable       bool          `koanf:"erasable"`          // personal data is encrypted, so that accounts can be erased; fixed when the data is created
	TLSCert        string        `koanf:"tls-cert"`          // PEM file of both listeners' certificate; "" = no TLS
	TLSKey         string        `koanf:"tls-key"`           // PEM file of its key
	TokenRate      int           `koanf:"token-rate"`        // HTTP requests per second of one token; 0 = no bound
	BusRate        int           `koanf:"bus-rate"`          // triggers and questions per second over NATS of one token or source; 0 = no bound
	BodyMiB        int           `koanf:"body-mib"`          // largest body of an HTTP request
	Sync           string        `koanf:"sync"`              // a bus.Sync; embedded server only
	Partitions     int           `koanf:"partitions"`        // streams the history is spread over, fixed when the data is created
	Machines       string        `koanf:"machines"`          // folder of machine files (*.yaml); "" = built-in machines only
	Beat           time.Duration `koanf:"beat"`              // between two beats of a worker; after three it is taken for dead
	RecoverAfter   time.Duration `koanf:"recover-after"`     // after the start or a lapse, how long accounts may wait for a live source
	SnapshotEvery  int           `koanf:"snapshot-every"`    // events of a partition between two snapshots
	SnapshotPeriod time.Duration `koanf:"snapshot-interval"` // the longest time between two snapshots while events come
	InboxMiB       int           `koanf:"inbox-mib"`         // largest size of the inbox
	Poison         string        `koanf:"poison"`            // projections.ParsePoisonRules
	LogLevel       string        `koanf:"log-level"`         // debug, info, warn or error
	LogFormat      string        `koanf:"log-format"`        // text or json
	LogTransitions bool          `koanf:"log-transitions"`   // a line for every transition

	// Connectors are the sources of webhooks, in the order of the file; there is no
	// flag for them.
	Connectors []Connector `koanf:"-"`
	// Alerts say who is told; there is no flag for them.
	Alerts Alerts `koanf:"-"`

	// Origins tells where each value came from, by its key: "default",
	// "--http", "MUSTER_HTTP" or "muster.yaml".
	Origins map[string]string `koanf:"-"`
}

// Embedded says whether Muster runs its own NATS server.
func (c *Config) Embedded() bool { return c.NATSURL == "" }

// Changed says whether a value differs from its default.
func (c *Config) Changed(key string) bool { return c.value(key) != known(key).def }
