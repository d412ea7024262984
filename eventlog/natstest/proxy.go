package natstest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between clients and a server's port, and can lose what the
// server answers or cut the connections.
type Proxy struct {
	listener net.Listener
	server   string
	done     sync.WaitGroup

	mu    sync.Mutex
	mute  bool
	conns []net.Conn
}

// NewProxy starts a proxy in front of a server that was started with Listen,
// for the length of a test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: strings.TrimPrefix(s.URL(), "nats://")}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// URL is where clients connect.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Mute loses everything that the server sends from now on, or ends that.
// Connections that have lost something are of no use afterwards: Cut them.
func (p *Proxy) Mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// Cut closes all connections. New ones are let through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.done.Go(func() { p.copy(server, client, false) })
		p.done.Go(func() { p.copy(client, server, true) })
	}
}

// copy passes bytes on until one side closes; then it closes both.
func (p *Proxy) copy(to, from net.Conn, answers bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		lose := answers && p.mute
		p.mu.Unlock()
		if n > 0 && !lose {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = io.EOF
			}
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}
