package bus

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/eventlog/powercuttest"
)

// within is the bound of every wait in these tests.
const within = 20 * time.Second

// start starts a server for the length of a test.
func start(t *testing.T, cfg ServerConfig) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := StartServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, s) })
	return s
}

func shutdown(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// dial connects over TCP for the length of a test.
func dial(t *testing.T, cfg ConnectConfig) *nats.Conn {
	t.Helper()
	nc, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestServerKeepsWhatItStored(t *testing.T) {
	dir := t.TempDir()
	s, err := StartServer(t.Context(), ServerConfig{Dir: dir, Sync: SyncAlways})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.StoreDir(), "$G", "streams", "S")); err != nil {
		t.Errorf("StoreDir is not where streams are: %v", err)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	nc.Close()
	shutdown(t, s)

	s = start(t, ServerConfig{Dir: dir})
	nc, err = s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err = jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := st.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages after a restart, want 1", n)
	}
}

func TestServerAddress(t *testing.T) {
	s := start(t, ServerConfig{Listen: "127.0.0.1:0"})
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Errorf("URL %q", s.URL())
	}
	nc := dial(t, ConnectConfig{URL: s.URL(), Name: "outside"})
	if got := nc.MaxPayload(); got != DefaultMaxPayload {
		t.Errorf("max payload %d", got)
	}
	if silent := start(t, ServerConfig{}); silent.URL() != "" || silent.Addr() != "" {
		t.Errorf("a server without a listener has the address %q", silent.Addr())
	}
}

func TestServerRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := taken.Addr().String()
	tests := map[string]struct {
		cfg  ServerConfig
		want error
		says []string
	}{
		"port taken":         {ServerConfig{Dir: t.TempDir(), Listen: addr}, ErrAddressInUse, []string{addr, "choose another address"}},
		"open without users": {ServerConfig{Dir: t.TempDir(), Listen: "0.0.0.0:0"}, ErrCredentialsRequired, []string{"0.0.0.0:0", "listen on 127.0.0.1 only"}},
		"open, no host":      {ServerConfig{Dir: t.TempDir(), Listen: ":0"}, ErrCredentialsRequired, []string{":0"}},
		"open, IPv6":         {ServerConfig{Dir: t.TempDir(), Listen: "[::]:0"}, ErrCredentialsRequired, []string{"[::]:0"}},
		"no such address":    {ServerConfig{Dir: t.TempDir(), Listen: "192.0.2.1:0", Users: []User{{"a", "b"}}}, ErrAddress, []string{"192.0.2.1:0"}},
		"no port":            {ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1"}, ErrAddress, []string{"host:port"}},
		"bad port":           {ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:99999"}, ErrAddress, []string{"0 to 65535"}},
		"user, no password":  {ServerConfig{Dir: t.TempDir(), Users: []User{{Name: "a"}}}, ErrCredentialsRequired, []string{`"a"`}},
		"a file in the way":  {ServerConfig{Dir: file}, ErrDirNotWritable, []string{file, "--data"}},
		"below a file":       {ServerConfig{Dir: filepath.Join(file, "sub")}, ErrDirNotWritable, []string{file, "--data"}},
		"not enough room":    {ServerConfig{Dir: t.TempDir(), MinFree: 1 << 60}, ErrDiskFull, []string{"MiB free", "--data"}},
		"no directory":       {ServerConfig{}, nil, []string{"data directory is required"}},
		"sync mode":          {ServerConfig{Dir: t.TempDir(), Sync: "sometimes"}, nil, []string{`"sometimes"`, "group, always or interval"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := StartServer(t.Context(), tt.cfg)
			if err == nil {
				shutdown(t, s)
				t.Fatal("it started")
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestFullDiskIsNamed(t *testing.T) {
	// /dev/full takes no byte: writing there is what a full disk answers.
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full: %v", err)
	}
	defer f.Close()
	_, err = f.Write([]byte("x"))
	if got := dirError("/data", err); !errors.Is(got, ErrDiskFull) || !strings.Contains(got.Error(), "/data") {
		t.Errorf("got %v", got)
	}
}

func TestSecondServerOnOnePort(t *testing.T) {
	first := start(t, ServerConfig{Listen: "127.0.0.1:0"})
	_, err := StartServer(t.Context(), ServerConfig{Dir: t.TempDir(), Listen: first.Addr()})
	if !errors.Is(err, ErrAddressInUse) {
		t.Fatalf("got %v", err)
	}
	dial(t, ConnectConfig{URL: first.URL()}) // the first one has not noticed
}

func TestUsers(t *testing.T) {
	s := start(t, ServerConfig{Listen: "0.0.0.0:0", Users: []User{{"ada", "s3cret"}}})
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://127.0.0.1:" + port
	dial(t, ConnectConfig{URL: url, User: "ada", Password: "s3cret"})
	for _, cfg := range []ConnectConfig{
		{URL: url},
		{URL: url, User: "ada", Password: "wrong-one"},
		{URL: "nats://ada:wrong-one@127.0.0.1:" + port},
	} {
		nc, err := Connect(t.Context(), cfg)
		if err == nil {
			nc.Close()
			t.Fatalf("%+v was let in", cfg)
		}
		if !errors.Is(err, ErrNotAllowed) {
			t.Errorf("got %v", err)
		}
		if strings.Contains(err.Error(), "wrong-one") {
			t.Errorf("the password shows: %v", err)
		}
	}
	in, err := s.Connect("inside")
	if err != nil {
		t.Fatalf("in process: %v", err)
	}
	in.Close()
}

func TestConnectNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(t.Context(), ConnectConfig{URL: url}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("one attempt: %v", err)
	}
	if _, err := Connect(t.Context(), ConnectConfig{URL: url, Wait: 300 * time.Millisecond}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("with patience: %v", err)
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		nc, err := Connect(t.Context(), ConnectConfig{URL: "nats://" + addr, Wait: within})
		if err == nil {
			nc.Close()
		}
		got <- err
	}()
	start(t, ServerConfig{Listen: addr})
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(within):
		t.Error("no connection")
	}
}

func TestConnectionIsRestored(t *testing.T) {
	dir := t.TempDir()
	s, err := StartServer(t.Context(), ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := s.Addr()
	nc := dial(t, ConnectConfig{URL: s.URL()})
	status := nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING)
	shutdown(t, s)
	await(t, status, nats.RECONNECTING)
	start(t, ServerConfig{Dir: dir, Listen: addr})
	await(t, status, nats.CONNECTED)
}

func await(t *testing.T, status <-chan nats.Status, want nats.Status) {
	t.Helper()
	bound := time.After(within)
	for {
		select {
		case got := <-status:
			if got == want {
				return
			}
		case <-bound:
			t.Fatalf("the connection is not %s", want)
		}
	}
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	// A cancelled start may be won by a quick one; either way nothing stays behind.
	s, err := StartServer(ctx, ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
	if err == nil {
		shutdown(t, s)
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestStartAndStopOftenLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	for range 50 {
		s, err := StartServer(t.Context(), ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		nc, err := s.Connect("test")
		if err != nil {
			t.Fatal(err)
		}
		svc, err := NewService(nc, ServiceConfig{Version: "v1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		if err := svc.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)
	}
	goleak.VerifyNone(t, before)
}

func TestLockDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = LockDir(dir)
	if !errors.Is(err, ErrDirLocked) {
		t.Fatalf("second lock: %v", err)
	}
	for _, part := range []string{dir, "process ", "--data"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	l, err = LockDir(dir)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestDiskFree(t *testing.T) {
	free, total, err := DiskFree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if free == 0 || total < free {
		t.Errorf("free %d of %d", free, total)
	}
	if _, _, err := DiskFree("/no/such/folder"); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

// TestTheDirectoryOutlivesAPowerCut: what is synced below a new directory is of
// no use when the directory's own name is gone.
func TestTheDirectoryOutlivesAPowerCut(t *testing.T) {
	disk := powercuttest.Mount(t)
	dir := filepath.Join(disk.Dir(), "var", "muster")
	s, err := StartServer(t.Context(), ServerConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := disk.Cut(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nats")); err != nil {
		t.Error(err)
	}
}
