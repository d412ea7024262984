package natstest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Cluster is three nats-servers in the process that replicate over loopback.
type Cluster struct {
	Servers []*Server
}

// RunCluster starts a cluster of three for the length of a test and waits
// until it has a leader and every server has caught up.
func RunCluster(t testing.TB, changes ...func(*server.Options)) *Cluster {
	t.Helper()
	const size = 3
	ports, err := freePorts(size)
	if err != nil {
		t.Fatal(err)
	}
	var routes []*url.URL
	for _, p := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	c, dir := &Cluster{}, t.TempDir()
	for i, port := range ports {
		member := func(o *server.Options) {
			Listen(o)
			o.ServerName = fmt.Sprintf("natstest-%d", i)
			o.Cluster = server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}
		s, err := Start(filepath.Join(dir, fmt.Sprint(i)), append([]func(*server.Options){member}, changes...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		c.Servers = append(c.Servers, s)
	}
	await(t, "a cluster with a leader", func() bool {
		leader := false
		for _, s := range c.Servers {
			leader = leader || s.Server().JetStreamIsLeader()
			if !s.Server().JetStreamIsCurrent() {
				return false
			}
		}
		return leader
	})
	return c
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // only when all are found, so that no port comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Wipe deletes every stream of the cluster, so that one cluster can serve many cases.
func (c *Cluster) Wipe(t testing.TB, nc *nats.Conn) {
	t.Helper()
	wipe(t, nc, c.Servers...)
}

// Conn returns a connection to one of the servers, for the length of a test.
// It goes over to another when that one stops.
func (c *Cluster) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	urls := ""
	for i, s := range c.Servers {
		if i > 0 {
			urls += ","
		}
		urls += s.URL()
	}
	return closing(t)(nats.Connect(urls, append(reconnecting(), opts...)...))
}

// StepDown makes a stream's leader give up its place and waits for the next.
func (c *Cluster) StepDown(t testing.TB, nc *nats.Conn, stream string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	if err != nil {
		t.Fatalf("step down %s: %v", stream, err)
	}
	var answer struct {
		Success bool            `json:"success"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil || !answer.Success {
		t.Fatalf("step down %s: %s, %v", stream, answer.Error, err)
	}
	await(t, "a new leader of "+stream, func() bool {
		for _, s := range c.Servers {
			if srv := s.Server(); srv != nil && srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				return true
			}
		}
		return false
	})
}
