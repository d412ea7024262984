package bus

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ServiceConfig describes the micro service of this process.
type ServiceConfig struct {
	Version  string            // of the program; made a semantic version if it is none
	Metadata map[string]string // shown by `nats micro info`; may be nil
	Logger   *slog.Logger      // default: discarded
}

// Service is the NATS micro service "muster" of this process: its endpoints
// can be found and measured with `nats micro ls|info|stats muster`.
//
// It owns its connection. Stop ends it in an order in which nobody who was
// heard goes without an answer.
type Service struct {
	nc  *nats.Conn
	svc micro.Service
	log *slog.Logger

	mu    sync.Mutex
	subs  map[*nats.Subscription]struct{}
	waits []func(context.Context) error
	stats map[string]func() any
}

// NewService registers the service on a connection that is the service's own
// from now on: Stop closes it.
func NewService(nc *nats.Conn, cfg ServiceConfig) (*Service, error) {
	s := &Service{nc: nc, log: cfg.Logger, subs: map[*nats.Subscription]struct{}{}, stats: map[string]func() any{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	s.svc, err = micro.AddService(nc, micro.Config{
		Name:        ServiceName,
		Version:     semver(cfg.Version),
		Description: "The state of a fleet of messaging accounts: triggers in, verdicts and answers out",
		Metadata:    cfg.Metadata,
		StatsHandler: func(e *micro.Endpoint) any {
			s.mu.Lock()
			f := s.stats[e.Name]
			s.mu.Unlock()
			if f == nil {
				return nil
			}
			return f()
		},
	})
	if err != nil {
		return nil, fmt.Errorf("register service: %w", err)
	}
	return s, nil
}

// Conn is the service's connection, for answers that are published later than
// their handler returns.
func (s *Service) Conn() *nats.Conn { return s.nc }

// EndpointConfig is one endpoint of the service.
type EndpointConfig struct {
	Name     string            // letters, digits, - and _
	Subject  string            // may hold wildcards
	Metadata map[string]string // e.g. the schema of requests
	Handler  micro.Handler     // called one at a time; must not block for long
	Stats    func() any        // shown under "data" in the endpoint's statistics; may be nil
	// Wait, when set, is called by Stop when no more requests come in; it
	// returns when all that came have been answered, or with ctx.
	Wait func(ctx context.Context) error
}

// The pending limits of an endpoint: what waits unread in this process. A
// handler that only hands on does not get there; beyond, requests are dropped
// and their senders time out.
const (
	pendingMessages = 1 << 20
	pendingBytes    = 256 << 20
)

// stopWithin bounds Stop.
const stopWithin = 30 * time.Second

// AddEndpoint registers an endpoint. Several processes share its requests.
func (s *Service) AddEndpoint(e EndpointConfig) error {
	s.mu.Lock()
	if e.Stats != nil {
		s.stats[e.Name] = e.Stats
	}
	if e.Wait != nil {
		s.waits = append(s.waits, e.Wait)
	}
	s.mu.Unlock()
	err := s.svc.AddEndpoint(e.Name, e.Handler,
		micro.WithEndpointSubject(e.Subject),
		micro.WithEndpointMetadata(e.Metadata),
		micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
	if err != nil {
		return fmt.Errorf("register endpoint %s on %s: %w", e.Name, e.Subject, err)
	}
	return nil
}

// Subscribe is a subscription that Stop ends together with the endpoints.
func (s *Service) Subscribe(subject string, h nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := s.nc.Subscribe(subject, h)
	if err == nil {
		err = sub.SetPendingLimits(pendingMessages, pendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	s.mu.Lock()
	s.subs[sub] = struct{}{}
	s.mu.Unlock()
	return sub, nil
}

// Unsubscribe ends a subscription of Subscribe: what has arrived is still handled.
func (s *Service) Unsubscribe(sub *nats.Subscription) error {
	s.mu.Lock()
	delete(s.subs, sub)
	s.mu.Unlock()
	if err := sub.Drain(); err != nil {
		return fmt.Errorf("unsubscribe from %s: %w", sub.Subject, err)
	}
	return nil
}

// Stop ends the service: no more requests are taken, those that have arrived
// are handled and answered, the answers are flushed, the connection is closed.
// When ctx, or a bound of 30 s, ends first, the connection is closed at once and
// the error says what was still going on.
func (s *Service) Stop(ctx context.Context) error {
	defer s.nc.Close()
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	if err := s.drain(ctx); err != nil {
		return fmt.Errorf("stop service: %w", err)
	}
	return nil
}

func (s *Service) drain(ctx context.Context) error {
	if err := s.svc.Stop(); err != nil {
		return fmt.Errorf("end endpoints: %w", err)
	}
	s.mu.Lock()
	subs, waits := s.subs, s.waits
	s.subs = nil
	s.mu.Unlock()
	for sub := range subs {
		if err := sub.Drain(); err != nil {
			return fmt.Errorf("unsubscribe from %s: %w", sub.Subject, err)
		}
	}
	// Behind the flush nothing more arrives; behind the barrier everything
	// that did has been through its handler.
	if err := s.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("end subscriptions: %w", err)
	}
	handled := make(chan struct{})
	if err := s.nc.Barrier(func() { close(handled) }); err != nil {
		return fmt.Errorf("wait for requests: %w", err)
	}
	select {
	case <-handled:
	case <-ctx.Done():
		return fmt.Errorf("wait for requests: %w", context.Cause(ctx))
	}
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	if err := s.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush answers: %w", err)
	}
	return nil
}

var semverPattern = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// semver turns a program's version into what NATS micro takes.
func semver(v string) string {
	v = strings.TrimPrefix(v, "v")
	if semverPattern.MatchString(v) {
		return v
	}
	return "0.0.0-dev"
}
