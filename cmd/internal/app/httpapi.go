package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
	"github.com/musterhq/muster/projections"
)

// streamKeeps is how many events of each partition are kept for those who follow
// the fleet over HTTP.
const streamKeeps = 8192

// startAPI opens everything under /v1, behind all that answers there.
func (a *App) startAPI(context.Context) error {
	nc, err := a.Connect("muster HTTP")
	if err != nil {
		return fmt.Errorf("open the HTTP API: %w", err)
	}
	a.onEnd("HTTP API's connection", time.Second, func(context.Context) error { nc.Close(); return nil })
	h, err := httpapi.New(httpapi.Config{
		Queries: a.queries(), Sender: audited{bus.NewClient(nc, bus.ClientConfig{}), a}, Version: a.opts.Version,
		Guard:  func(need auth.Role, next http.Handler) http.Handler { return a.door.guard.Need(need, next) },
		Live:   live.Config{Log: a.events, Follow: a.stream, Keep: streamKeeps, Logger: a.log.With("component", "stream")},
		Logger: a.log.With("component", "http"),
	})
	if err != nil {
		return err
	}
	a.api.Store(h)
	a.onEnd("HTTP API", 10*time.Second, h.Close)
	return nil
}

// serveAPI gives a request to the API as soon as there is one.
func (a *App) serveAPI(w http.ResponseWriter, r *http.Request) {
	if h := a.api.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	httpapi.NewProblem(httpapi.CodeStarting, "the server is starting: "+a.stage.get()).Write(w)
}

// openStream makes the place where committed records wait for the HTTP stream.
// What nobody takes pushes the oldest out.
func (a *App) openStream() {
	a.stream = projections.NewTee(a.events, a.events.Partitions(), streamKeeps)
}
