package dispatch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is the bound of every wait in these tests.
const within = 20 * time.Second

// fakeJudge applies every trigger. What a test wants otherwise it says in do.
type fakeJudge struct {
	mu  sync.Mutex
	got []domain.Trigger
	do  func(t domain.Trigger, done func(command.Answer)) error
}

func (j *fakeJudge) Submit(t domain.Trigger, done func(command.Answer)) error {
	j.mu.Lock()
	j.got = append(j.got, t)
	n := len(j.got)
	j.mu.Unlock()
	if j.do != nil {
		return j.do(t, done)
	}
	done(applied(t, uint64(n)))
	return nil
}

func (j *fakeJudge) triggers() []domain.Trigger {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.got
}

func applied(t domain.Trigger, version uint64) command.Answer {
	return command.Answer{
		Verdict: domain.Verdict{
			Account: t.Account, Key: t.Key, Trigger: t.Name, Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", Version: version,
			Source: t.Source, Reason: t.Reason.Code,
		},
		Partition: 2, Seq: 40 + version,
	}
}

// rig is a server, an endpoint in front of a Judge, and a client of plain nats.go.
type rig struct {
	server   *bus.Server
	service  *bus.Service
	endpoint *Endpoint
	client   *nats.Conn
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	s, err := bus.StartServer(t.Context(), bus.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	r := &rig{server: s}
	r.service, r.endpoint = r.process(t, cfg)
	r.client, err = nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	return r
}

// process is one more Muster process on the rig's server.
func (r *rig) process(t testing.TB, cfg Config) (*bus.Service, *Endpoint) {
	t.Helper()
	nc, err := r.server.Connect("muster")
	if err != nil {
		t.Fatal(err)
	}
	svc, err := bus.NewService(nc, bus.ServiceConfig{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !nc.IsClosed() {
			stop(t, svc)
		}
	})
	e, err := Register(svc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	return svc, e
}

func stop(t testing.TB, s *bus.Service) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func (r *rig) ask(t testing.TB, m *nats.Msg) *nats.Msg {
	t.Helper()
	got, err := r.client.RequestMsg(m, within)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRegisterNeedsAJudge(t *testing.T) {
	if _, err := Register(nil, Config{}); err == nil {
		t.Error("no error without a Judge")
	}
}
