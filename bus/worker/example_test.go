package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/domain"
)

// vendor is the library that really talks to the vendor. Its first connection
// breaks after a while, so that there is something to see.
type vendor struct{ connections int }

func (v *vendor) dial() (codes []string, paired bool) {
	v.connections++
	return []string{"code 1", "code 2"}, v.connections > 1
}

func (v *vendor) serve(ctx context.Context) error {
	if v.connections > 1 {
		<-ctx.Done()
		return nil
	}
	return errors.New("stream error 515")
}

// A complete connector. It shows QR codes until somebody has scanned one, tells
// when the account is ready, sends a message, and comes back when its connection
// breaks. The kit does the rest: hello and beats, epochs and sequence numbers,
// starts and stops of the operators, the back-off, and the end.
func Example() {
	muster, err := startWhole(time.Second) // in earnest: muster serve
	if err != nil {
		panic(err)
	}
	nc, err := nats.Connect(muster.srv.URL(), nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	v, sent := &vendor{}, make(chan struct{})
	connect := func(ctx context.Context, a *worker.Account) error {
		say := func(trigger string, more ...worker.Option) error {
			r, err := a.Say(ctx, trigger, more...)
			if err == nil {
				fmt.Printf("%s: %s -> %s via %s\n", a.ID(), r.Verdict.From, r.Verdict.To, trigger)
			}
			return err
		}
		codes, paired := v.dial()
		for range codes {
			if !paired {
				if err := say("qr_received"); err != nil { // the code itself stays here
					return err
				}
			}
		}
		if err := say("connection_ready"); err != nil {
			return err
		}
		if paired {
			_ = say("message_sent", worker.Key("m-1"), worker.Data(domain.Data{"reply_within": int64(600)}))
			close(sent)
		}
		return v.serve(ctx) // for as long as the connection lives
	}
	ctx, interrupt := context.WithCancel(context.Background()) // in earnest: signal.NotifyContext
	ended := make(chan error)
	go func() {
		ended <- worker.Serve(ctx, nc, worker.KitConfig{
			Config: worker.Config{Name: "shop-worker"}, Connector: worker.Connector{Connect: connect}, Accounts: []string{"acct-1"},
			Backoff: func(int) time.Duration { return time.Millisecond }, // in earnest: leave it out
		})
	}()

	if err := muster.user("acct-1", "start"); err != nil { // in earnest an operator does it
		panic(err)
	}
	<-sent
	interrupt()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	nc.Close()
	if err := muster.stop(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// acct-1: CONNECTING -> QR_REQUIRED via qr_received
	// acct-1: QR_REQUIRED -> QR_REQUIRED via qr_received
	// acct-1: QR_REQUIRED -> RUNNING via connection_ready
	// acct-1: DISCONNECTED -> RUNNING via connection_ready
	// acct-1:  -> SENT via message_sent
}
