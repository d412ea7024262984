package dispatch_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/domain"
)

// yes applies every trigger; a command.Set judges and stores it first.
type yes struct{}

func (yes) Submit(t domain.Trigger, done func(command.Answer)) error {
	done(command.Answer{Verdict: domain.Verdict{Account: t.Account, Trigger: t.Name, Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", Version: 1}, Seq: 9})
	return nil
}

// Any NATS client can send a trigger: a request with a JSON body, and the
// verdict comes back.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "muster")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Shutdown(ctx) }()
	nc, err := server.Connect("muster")
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := bus.NewService(nc, bus.ServiceConfig{Version: "1.0.0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = service.Stop(ctx) }()
	if _, err := dispatch.Register(service, dispatch.Config{Judge: yes{}}); err != nil {
		fmt.Println(err)
		return
	}
	if err := nc.Flush(); err != nil { // from now on a request is heard
		fmt.Println(err)
		return
	}

	client, err := nats.Connect(server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	answer, err := client.Request(bus.CommandSubject("acct-1"), []byte(`{"trigger":"start"}`), 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(answer.Data))

	// The same with the Go client.
	reply, err := bus.NewClient(client, bus.ClientConfig{}).Send(ctx, domain.Trigger{Account: "acct-1", Name: "start", Expect: domain.NoExpect})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Outcome, reply.From, "->", reply.To)
	// Output:
	// {"account":"acct-1","key":"","trigger":"start","outcome":"applied","from":"IDLE","to":"CONNECTING","version":1,"reason":"","as_of":{"0":9}}
	// applied IDLE -> CONNECTING
}
