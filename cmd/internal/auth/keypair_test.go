package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
)

// TestKeypair serves HTTP and NATS with a certificate that is replaced meanwhile.
func TestKeypair(t *testing.T) {
	dir := t.TempDir()
	cert, key := writePair(t, dir, 1)
	pair, err := OpenKeypair(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	pair.now = func() time.Time { return now }
	r := newRig(t, Config{User: "muster", Password: "s3cret"}, func(c *bus.ServerConfig) { c.TLS = pair.Config() })

	nc, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: r.server.URL(), User: "muster", Password: "s3cret", CA: cert})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := bus.Connect(t.Context(), bus.ConnectConfig{URL: r.server.URL(), User: "muster", Password: "s3cret"}); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("without the authority: %v, want ErrUnreachable", err)
	}

	l, err := tls.Listen("tcp", "127.0.0.1:0", pair.Config())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: within}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() {
		_ = web.Close()
		<-served
	}()
	serial := func() int64 {
		pem, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("serial %d, want 1", got)
	}
	writePair(t, dir, 2)
	later := now.Add(time.Hour)
	for _, f := range []string{cert, key} {
		if err := os.Chtimes(f, later, later); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(2 * lookEvery)
	if got := serial(); got != 2 {
		t.Errorf("serial %d after the files were replaced, want 2", got)
	}
	if err := os.WriteFile(key, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * lookEvery)
	if got := serial(); got != 2 {
		t.Errorf("serial %d with a bad key, want 2 still", got)
	}
	if _, err := OpenKeypair(cert, key, nil); err == nil {
		t.Error("a bad key was taken at the start")
	}
	if _, err := OpenKeypair(dir+"/none", key, nil); err == nil {
		t.Error("a missing certificate was taken at the start")
	}
}
