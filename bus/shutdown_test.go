package bus

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestShutdownLeavesADeafClientBehind: a subscriber that reads nothing holds the
// end up for a moment only, and what is stored is stored.
func TestShutdownLeavesADeafClientBehind(t *testing.T) {
	dir := t.TempDir()
	s, err := StartServer(t.Context(), ServerConfig{Dir: dir, Listen: "127.0.0.1:0", Sync: SyncAlways})
	if err != nil {
		t.Fatal(err)
	}
	deaf, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if err := deaf.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := deaf.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB noise 1\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	nc := dial(t, ConnectConfig{URL: s.URL()})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
		t.Fatal(err)
	}
	for range 40 { // more than the socket's buffers take
		if err := nc.Publish("noise", make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "kept", []byte("x")); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	shutdown(t, s)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("the end took %v; the server itself waits for 10 s", took)
	}
	_ = deaf.Close()
	s.srv.WaitForShutdown() // now it can end
	again := start(t, ServerConfig{Dir: dir})
	nc, err = again.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if st, err := js.Stream(t.Context(), "KEPT"); err != nil || st.CachedInfo().State.Msgs != 1 {
		t.Errorf("after a start: %v, %v", st, err)
	}
}
