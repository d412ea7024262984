package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi"
)

// stage is what the start is doing; "" = it is done.
type stage struct{ p atomic.Pointer[string] }

func (s *stage) set(text string) { s.p.Store(&text) }

func (s *stage) get() string {
	if p := s.p.Load(); p != nil {
		return *p
	}
	return ""
}

// startHTTP listens first of all, so that an operator can see how far a long
// replay has come.
func (a *App) startHTTP(ctx context.Context) error {
	if err := a.door.openTLS(a); err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.cfg.HTTP)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen for HTTP: another process listens on %s; stop it, or choose another address (--http; port 0 takes a free one): %w", a.cfg.HTTP, err)
	}
	if err != nil {
		return fmt.Errorf("listen for HTTP on %s (--http): %w", a.cfg.HTTP, err)
	}
	a.cfg.HTTP = l.Addr().String()
	srv := &http.Server{
		Handler: a.tracer.HTTP(a.handler(), httpapi.Prefix, hub.Prefix), TLSConfig: a.door.tls, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(a.log.With("component", "http").Handler(), slog.LevelDebug), // clients' faults
	}
	serve := srv.Serve
	if a.door.tls != nil {
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	a.wg.Go(func() {
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	})
	a.onEnd("HTTP", 5*time.Second, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			a.log.Warn("HTTP clients that did not finish were cut off", "reason", context.Cause(ctx))
			return srv.Close()
		}
		return nil
	})
	return nil
}

// handler is the HTTP surface: is the process alive, and may it be used.
func (a *App) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.health(); err != nil {
			reply(w, http.StatusServiceUnavailable, map[string]string{"status": "failing", "reason": err.Error()})
			return
		}
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s := a.stage.get(); s != "" {
			w.Header().Set("Retry-After", "1")
			reply(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": s})
			return
		}
		if err := a.health(); err != nil {
			reply(w, http.StatusServiceUnavailable, map[string]string{"status": "failing", "reason": err.Error()})
			return
		}
		reply(w, http.StatusOK, a.readiness())
	})
	mux.HandleFunc(hub.Prefix, a.serveHooks)
	mux.Handle("GET /metrics", a.door.guard.Need(auth.Reader, a.metrics.Handler()))
	for _, path := range []string{httpapi.Prefix, "/openapi.json", "/openapi.yaml"} {
		mux.HandleFunc(path, a.serveAPI)
	}
	return mux
}

// health is nil while everything that has been started works.
func (a *App) health() error {
	select {
	case <-a.ready:
	default:
		return nil // still starting: alive, and Run's error will say the rest
	}
	if err := a.set.Err(); err != nil {
		return err
	}
	if a.server != nil {
		return a.server.Health()
	}
	return nil
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}
