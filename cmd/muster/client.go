package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
)

// answerWithin bounds the wait for one answer. It is longer than a server
// takes to say that it has none yet.
const answerWithin = 35 * time.Second

// server is a connection to a running Muster.
type server struct {
	*bus.Client             // for triggers
	queries     *bus.Client // asks once and waits long: a server may wait itself before it answers
	inbox       *inbox.Publisher
	maxPayload  int64 // bytes that the server takes as one message
	close       func()
}

// Query asks one question on an open connection.
func (s *server) Query(ctx context.Context, name string, req, answer any) error {
	return s.queries.Query(ctx, name, req, answer)
}

// connectConfig says how to reach the server that --server names. MUSTER_TOKEN is
// given along, or MUSTER_USER and MUSTER_PASSWORD when a password is set.
func (c *cli) connectConfig(name string) bus.ConnectConfig {
	cfg := bus.ConnectConfig{URL: c.server, Name: name, CA: os.Getenv("MUSTER_CA")}
	if id, secret, ok := auth.Split(os.Getenv("MUSTER_TOKEN")); ok {
		cfg.User, cfg.Password = id, secret
		return cfg
	}
	if cfg.Password = os.Getenv("MUSTER_PASSWORD"); cfg.Password != "" {
		cfg.User = "muster"
		if user := os.Getenv("MUSTER_USER"); user != "" {
			cfg.User = user
		}
	}
	return cfg
}

// connect opens a connection for requests.
func (c *cli) connect(ctx context.Context) (*server, error) {
	cfg := c.connectConfig("muster command line")
	cfg.NoBuffer = true
	nc, err := bus.Connect(ctx, cfg)
	if err != nil {
		return nil, c.hint(err)
	}
	in, err := inbox.NewPublisher(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	as := "" // a token's name goes along: what an operator does is kept with it
	if id, _, ok := auth.Split(os.Getenv("MUSTER_TOKEN")); ok {
		as, in = id, in.As(bus.Speaker{Token: id})
	}
	return &server{
		inbox:      in,
		Client:     bus.NewClient(nc, bus.ClientConfig{As: as}),
		queries:    bus.NewClient(nc, bus.ClientConfig{As: as, Timeout: answerWithin, Tries: 1}),
		maxPayload: nc.MaxPayload(),
		close:      nc.Close,
	}, nil
}

// query connects, asks one question and closes the connection.
func (c *cli) query(ctx context.Context, name string, req, answer any) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return c.hint(s.Query(ctx, name, req, answer))
}

// hint says what to do about a server that does not answer.
func (c *cli) hint(err error) error {
	if errors.Is(err, bus.ErrUnreachable) {
		return fmt.Errorf("%w; is `muster serve` running there? --server or MUSTER_SERVER names another address", err)
	}
	return err
}

// waitFor is the flag --wait-for: a position that the answer must have reached.
type waitFor struct{ text string }

func (w *waitFor) flag(cmd *cobra.Command) {
	cmd.Flags().Var(w, "wait-for", `wait until the answer knows this position, as "as_of" of another answer gives it, e.g. {"0":123}`)
}

// String returns the position as it was given.
func (w *waitFor) String() string { return w.text }

// Type names the kind of value in the help.
func (w *waitFor) Type() string { return "position" }

// Set reads a position.
func (w *waitFor) Set(text string) error {
	w.text = text
	var p api.AsOf
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf(`a position is written {"PARTITION":SEQUENCE}, e.g. {"0":123}: %w`, err)
	}
	return nil
}

// position returns the position, or nil if none was given.
func (w *waitFor) position() api.AsOf {
	var p api.AsOf
	if w.text != "" && json.Unmarshal([]byte(w.text), &p) != nil {
		return nil // Set has refused it before
	}
	return p
}
