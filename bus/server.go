package bus

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Sync is what an acknowledgement of the embedded server's log waits for.
type Sync string

// The sync modes.
const (
	SyncGroup    Sync = "group"    // the writer syncs each group of events before it answers
	SyncAlways   Sync = "always"   // the server syncs each message before it acknowledges
	SyncInterval Sync = "interval" // the server syncs now and then: a power cut can lose the last moments
)

// ParseSync reads a sync mode's name.
func ParseSync(s string) (Sync, error) {
	switch m := Sync(s); m {
	case SyncGroup, SyncAlways, SyncInterval:
		return m, nil
	default:
		return "", fmt.Errorf("sync mode %q: it is group, always or interval", s)
	}
}

// User may connect to the embedded server.
type User struct {
	Name     string
	Password string
}

// ServerConfig is how the embedded server runs. Only Dir is required.
type ServerConfig struct {
	Dir    string // data directory; the store lies in its folder "nats"
	Listen string // host:port for other processes; "" = none, port 0 = any free one
	Users  []User // who may connect; required when Listen is not on loopback and there is no Authenticate
	// Authenticate is asked about each client instead of Users, from a goroutine
	// of that client; it may wait. nil: Users decide.
	Authenticate func(Login) (Grant, bool)
	TLS          *tls.Config   // of the listener; nil = none
	Sync         Sync          // default SyncGroup
	Every        time.Duration // how often the server syncs in the background (default: its own, 2 min)
	// ReadyWithin bounds the start, recovery of the store included (default 5 min).
	ReadyWithin time.Duration
	// MaxPayload is the largest message in bytes (default 1 MiB).
	MaxPayload int
	// MinFree is the free space in bytes below which the server does not
	// start (default 64 MiB). While it runs, who appends looks at the space.
	MinFree uint64
	Name    string       // the server's name (default "muster")
	Logger  *slog.Logger // gets the server's log (default: discarded)
}

// DefaultMaxPayload is the largest message that the embedded server takes, in bytes.
const DefaultMaxPayload = 1 << 20

func (c ServerConfig) withDefaults() (ServerConfig, error) {
	if c.Dir == "" {
		return c, errors.New("a data directory is required")
	}
	if c.Sync == "" {
		c.Sync = SyncGroup
	}
	if _, err := ParseSync(string(c.Sync)); err != nil {
		return c, err
	}
	for _, u := range c.Users {
		if u.Name == "" || u.Password == "" || u.Name == internalUser {
			return c, fmt.Errorf("%w: user %q needs a name, not %q, and a password", ErrCredentialsRequired, u.Name, internalUser)
		}
	}
	if c.ReadyWithin == 0 {
		c.ReadyWithin = 5 * time.Minute
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.MinFree == 0 {
		c.MinFree = 64 << 20
	}
	if c.Name == "" {
		c.Name = "muster"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Server is a NATS server with JetStream inside this process.
type Server struct {
	srv      *server.Server
	cfg      ServerConfig
	password string // of the internal user; "" = anybody may connect
}

// loginWithin is how long a client may take to show who it is, the wait of
// Authenticate included.
const loginWithin = 30 * time.Second

// internalUser is the name under which this process itself connects when users are set.
const internalUser = "muster-internal"

// memoryLimit bounds memory streams; Muster itself keeps next to nothing in them.
const memoryLimit = 256 << 20

// storeLimit, in bytes, is more than any disk: the server would fix a limit at its
// start, refuse without a reason that helps, and not see space that was freed.
const storeLimit = 1 << 50

// StartServer starts the embedded server and returns when it is ready. Its
// error is a sentence for the operator and wraps, where that is the reason,
// ErrAddressInUse, ErrAddress, ErrCredentialsRequired, ErrDirNotWritable or
// ErrDiskFull. When ctx ends first the server is stopped again.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	s := &Server{cfg: cfg}
	opts, err := s.options(ctx)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	s.srv, err = server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	log := newServerLog(cfg.Logger)
	s.srv.SetLoggerV2(log, false, false, false)
	if err := s.start(ctx, log); err != nil {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	return s, nil
}

// options checks what the server will need and turns the configuration into the server's.
func (s *Server) options(ctx context.Context) (*server.Options, error) {
	c := s.cfg
	store := filepath.Join(c.Dir, "nats")
	if err := checkDir(store); err != nil {
		return nil, err
	}
	if err := checkSpace(store, c.MinFree); err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName:         c.Name,
		DontListen:         c.Listen == "",
		JetStream:          true,
		StoreDir:           store,
		JetStreamMaxMemory: memoryLimit,
		JetStreamMaxStore:  storeLimit,
		SyncAlways:         c.Sync == SyncAlways,
		SyncInterval:       c.Every,
		MaxPayload:         int32(c.MaxPayload),
		NoSigs:             true,
	}
	if c.Listen != "" {
		var err error
		if o.Host, o.Port, err = checkListen(ctx, c.Listen, len(c.Users) == 0 && c.Authenticate == nil); err != nil {
			return nil, err
		}
	}
	if c.TLS != nil {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, c.TLS, loginWithin.Seconds()
	}
	if len(c.Users) == 0 && c.Authenticate == nil {
		return o, nil
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails, by its contract
	s.password = hex.EncodeToString(secret)
	if c.Authenticate != nil {
		o.CustomClientAuthentication = &door{internal: s.password, authenticate: c.Authenticate}
		o.AuthTimeout = loginWithin.Seconds()
	} else {
		o.Users = append(o.Users, &server.User{Username: internalUser, Password: s.password})
		for _, u := range c.Users {
			o.Users = append(o.Users, &server.User{Username: u.Name, Password: u.Password})
		}
	}
	return o, nil
}

// A start that is given up is waited for: for quickStart before it is shut down, since
// the server does not take well to a shutdown in the midst of its start, and for
// startGrace behind that.
const (
	quickStart = time.Second
	startGrace = 5 * time.Second
)

// start runs the server's Start, which recovers the store, and waits for it.
func (s *Server) start(ctx context.Context, log *serverLog) error {
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.srv.Start()
	}()
	bound := time.NewTimer(s.cfg.ReadyWithin)
	defer bound.Stop()
	select {
	case <-started:
	case <-log.fatal:
		<-started
	case <-ctx.Done():
		select {
		case <-started:
		case <-time.After(quickStart):
		}
		s.srv.Shutdown()
		select { // nothing stops Start itself; while it can be waited for, nothing is written after the return
		case <-started:
		case <-time.After(startGrace):
		}
		return context.Cause(ctx)
	case <-bound.C:
		return fmt.Errorf("the store in %s was not ready within %s; a large store needs longer after a crash: start again, or raise the bound",
			s.cfg.Dir, s.cfg.ReadyWithin)
	}
	select {
	case <-log.fatal:
		return log.err
	default:
	}
	if !s.srv.ReadyForConnections(5 * time.Second) {
		return errors.New("the server started but takes no connections")
	}
	return nil
}

// Addr is the address that other processes connect to, as host:port; "" when
// there is no listener.
func (s *Server) Addr() string {
	if s.cfg.Listen == "" {
		return ""
	}
	a, ok := s.srv.Addr().(*net.TCPAddr)
	if !ok {
		return s.cfg.Listen
	}
	return net.JoinHostPort(a.IP.String(), strconv.Itoa(a.Port))
}

// URL is what a client gives to Connect; "" when there is no listener.
func (s *Server) URL() string {
	a := s.Addr()
	switch {
	case a == "":
		return ""
	case s.cfg.TLS != nil:
		return "tls://" + a
	default:
		return "nats://" + a
	}
}

// StoreDir is the folder in which JetStream keeps its accounts' streams.
func (s *Server) StoreDir() string { return s.srv.JetStreamConfig().StoreDir }

// Sync is the sync mode that the server was started with.
func (s *Server) Sync() Sync { return s.cfg.Sync }

// Health is nil while the server and all its streams work, else why not.
func (s *Server) Health() error {
	if h := s.srv.Healthz(&server.HealthzOptions{}); h.Status != "ok" {
		return fmt.Errorf("NATS server: %s: %s", h.Status, h.Error)
	}
	return nil
}

// Connect opens a connection inside the process. It needs no listener.
func (s *Server) Connect(name string, opts ...nats.Option) (*nats.Conn, error) {
	base := connOptions(ConnectConfig{Name: name, Logger: s.cfg.Logger})
	base = append(base, nats.InProcessServer(s.srv))
	if s.password != "" {
		base = append(base, nats.UserInfo(internalUser, s.password))
	}
	nc, err := nats.Connect("", append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect %s in process: %w", name, err)
	}
	return nc, nil
}

// deafWithin is how long clients that read nothing are waited for once the store
// is closed. The server itself would wait until what it writes to them fails,
// which takes 10 s.
const deafWithin = 2 * time.Second

// Shutdown stops the server and waits for it, at most until ctx ends. When the
// store is closed and only connections are left whose clients read nothing, they
// are left to the end of the process, and that is no error. Connections should
// have been drained before.
func (s *Server) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
	}()
	look := time.NewTicker(deafWithin / 20)
	defer look.Stop()
	var closed time.Time // since when the store is seen closed
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop NATS: it has not ended in time: %w", context.Cause(ctx))
		case now := <-look.C:
			switch {
			case s.srv.JetStreamEnabled():
			case closed.IsZero():
				closed = now
			case now.Sub(closed) >= deafWithin:
				s.cfg.Logger.Warn("a client reads nothing and its connection is given up")
				return nil
			}
		}
	}
}
