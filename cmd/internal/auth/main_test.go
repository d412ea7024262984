package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds what a test waits for.
const within = 20 * time.Second

// rig is a NATS server that lets in whom its tokens let in.
type rig struct {
	tokens *Tokens
	server *bus.Server
	inside *nats.Conn
	ids    map[string][2]string // id and secret, by the name of the token
}

// newRig starts a server and loads its tokens. change may be nil.
func newRig(t *testing.T, cfg Config, change func(*bus.ServerConfig)) *rig {
	t.Helper()
	r := &rig{tokens: New(cfg), ids: map[string][2]string{}}
	sc := bus.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", Authenticate: r.tokens.Authenticate}
	if change != nil {
		change(&sc)
	}
	var err error
	if r.server, err = bus.StartServer(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.tokens.Close()
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	if r.inside, err = r.server.Connect("inside"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.inside.Close)
	if err := r.tokens.Load(t.Context(), r.inside, 1, 2); err != nil {
		t.Fatal(err)
	}
	return r
}

// token makes a token of a role and remembers it under the name.
func (r *rig) token(t *testing.T, name string, k Token) Token {
	t.Helper()
	id, secret, _ := NewSecret()
	k.ID, k.Hash, k.Name, k.By = id, HashOf(secret), name, "test"
	made, err := r.tokens.Create(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	r.ids[name] = [2]string{id, secret}
	return made
}

// everybody makes a token of every role: admin, operator, reader, connector.
func (r *rig) everybody(t *testing.T) {
	t.Helper()
	for _, role := range []Role{Admin, Operator, Reader} {
		r.token(t, string(role), Token{Role: role})
	}
	r.token(t, string(Connector), Token{Role: Connector, Sources: []string{"waha-1", "a.b"}})
}

// whole is a token as its holder has it.
func (r *rig) whole(name string) string { return Prefix + r.ids[name][0] + "_" + r.ids[name][1] }

// connect connects as the holder of a token; "" = as nobody.
func (r *rig) connect(name string) (*nats.Conn, error) {
	cfg := bus.ConnectConfig{URL: r.server.URL(), Name: name}
	if name != "" {
		cfg.User, cfg.Password = r.ids[name][0], r.ids[name][1]
	}
	return bus.Connect(context.Background(), cfg)
}

// writePair writes a self-signed certificate for 127.0.0.1 with a serial number.
func writePair(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "muster"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "muster"}}, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: packed}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
