// Package natstest starts real nats-servers in the process, for tests: one
// server, or a cluster of three, each with JetStream on files.
//
// It owns the servers' life: Run and RunCluster stop them when the test ends.
// A server can be restarted on its store; connections made with Conn find the
// new one by themselves. It fakes nothing, so a test that passes here has met
// the server that the product embeds.
package natstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ready bounds the start of a server, and of a cluster's election.
const ready = 20 * time.Second

// Server is one nats-server with JetStream in the process, reached without a
// port unless its options say otherwise.
type Server struct {
	opts    server.Options
	current atomic.Pointer[server.Server]
}

// Start starts a server that keeps its store under dir. Each change may alter
// the options before the start. Stop ends it.
func Start(dir string, changes ...func(*server.Options)) (*Server, error) {
	s := &Server{opts: server.Options{
		ServerName: "natstest", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	}}
	for _, change := range changes {
		change(&s.opts)
	}
	return s, s.start()
}

// Run is Start in a temporary folder, for the length of a test.
func Run(t testing.TB, changes ...func(*server.Options)) *Server {
	t.Helper()
	s, err := Start(t.TempDir(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// SyncAlways makes the server fsync each message before its ack.
func SyncAlways(o *server.Options) { o.SyncAlways = true }

// Listen makes the server listen on a free loopback port; see URL.
func Listen(o *server.Options) { o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT }

func (s *Server) start() error {
	opts := s.opts.Clone()
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("new nats-server: %w", err)
	}
	if opts.Debug || opts.Trace || !opts.NoLog {
		srv.ConfigureLogger()
	}
	srv.Start()
	s.current.Store(srv)
	if !srv.ReadyForConnections(ready) {
		s.Stop()
		return errors.New("the nats-server is not ready")
	}
	if s.opts.Port == server.RANDOM_PORT { // a restart must listen where clients look
		s.opts.Port = srv.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// Stop shuts the server down and waits for it. A second Stop does nothing.
func (s *Server) Stop() {
	if srv := s.current.Swap(nil); srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Restart stops the server and starts a new one on the same store.
func (s *Server) Restart() error {
	s.Stop()
	return s.start()
}

// Server is the running server, nil while it is stopped.
func (s *Server) Server() *server.Server { return s.current.Load() }

// StoreDir is the folder given to Start; the server keeps its files in
// jetstream below it.
func (s *Server) StoreDir() string { return s.opts.StoreDir }

// URL is where a server with Listen is reached.
func (s *Server) URL() string { return s.Server().ClientURL() }

// InProcessConn connects to the server that runs now, so that a client finds
// its way back after Restart.
func (s *Server) InProcessConn() (net.Conn, error) {
	srv := s.current.Load()
	if srv == nil {
		return nil, errors.New("the nats-server is stopped")
	}
	return srv.InProcessConn()
}

// Connect returns a new in-process connection that reconnects quickly and for ever.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(reconnecting(), append([]nats.Option{nats.InProcessServer(s)}, opts...)...)...)
}

// Conn is Connect for the length of a test.
func (s *Server) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return closing(t)(s.Connect(opts...))
}

func reconnecting() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1)}
}

func closing(t testing.TB) func(*nats.Conn, error) *nats.Conn {
	return func(nc *nats.Conn, err error) *nats.Conn {
		t.Helper()
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

// Wipe deletes every stream of the server, so that one server can serve many cases.
func (s *Server) Wipe(t testing.TB, nc *nats.Conn) {
	t.Helper()
	wipe(t, nc, s)
}

// wipe deletes every stream and waits until the servers have removed the files:
// a stream of the same name that is deleted before that leaves its records behind.
func wipe(t testing.TB, nc *nats.Conn, servers ...*Server) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Errorf("delete stream %s: %v", name, err)
		}
	}
	if err := names.Err(); err != nil {
		t.Errorf("list streams: %v", err)
	}
	await(t, "the deleted streams' files to go", func() bool {
		for _, s := range servers {
			left, err := filepath.Glob(filepath.Join(s.StoreDir(), "jetstream", "*", "streams", "*"))
			if err != nil || len(left) > 0 {
				return false
			}
		}
		return true
	})
}

// await polls a condition of the servers, for which they have no signal.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(ready)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %v for %s", ready, what)
		}
	}
}
