package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/musterhq/muster/bus"
)

// named is the endpoint of the questions whose subject names who asks: one for all
// queries, each of which keeps its own bounds.
type named struct {
	as      func(ctx context.Context, name, query string) (context.Context, error)
	nc      *nats.Conn
	log     *slog.Logger
	queries map[string]*endpoint
}

func (n *named) register(s *bus.Service) error {
	err := s.AddEndpoint(bus.EndpointConfig{
		Name: "as", Subject: bus.NamedQueries,
		Metadata: map[string]string{
			"description": "every query, asked in the name of a token: muster.as.<token>.<query>",
			"format":      bus.TypeJSON,
		},
		Handler: micro.HandlerFunc(n.handle),
	})
	if err != nil {
		return fmt.Errorf("register questions with a name: %w", err)
	}
	return nil
}

// handle finds the query and lets its request wait for a slot: beside this
// endpoint, which has others to hear.
func (n *named) handle(req micro.Request) {
	who, query, err := bus.AskerOf(req.Subject())
	if err != nil {
		n.refuse(req, invalid(err.Error()))
		return
	}
	e := n.queries[query]
	if e == nil {
		n.refuse(req, &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: fmt.Sprintf("there is no query %q", query)})
		return
	}
	ctx, err := n.as(e.ctx, who, query)
	var known *bus.Error
	switch {
	case errors.As(err, &known):
		n.refuse(req, known)
		return
	case err != nil:
		n.refuse(req, e.problem(err))
		return
	}
	reply, body := req.Reply(), req.Data()
	e.wg.Go(func() {
		select {
		case e.slots <- struct{}{}:
		case <-e.ctx.Done():
			n.send(reply, e.problem(context.Canceled))
			return
		}
		defer func() { <-e.slots }()
		e.answer(ctx, reply, body)
	})
}

func (n *named) refuse(req micro.Request, err *bus.Error) { n.send(req.Reply(), err) }

func (n *named) send(reply string, err *bus.Error) {
	if reply == "" {
		return
	}
	m := err.Message()
	m.Subject = reply
	if err := n.nc.PublishMsg(m); err != nil {
		n.log.Warn("question not answered", "error", err)
	}
}
