package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
)

// ErrUnreachable: nobody answered. A server could not be reached, nobody
// listens on the subject, or no answer came in time. In the last case the
// trigger may have been judged.
var ErrUnreachable = errors.New("the server cannot be reached")

// ConnectConfig is how a connection to a server behaves. Only URL is required.
type ConnectConfig struct {
	URL      string // e.g. nats://127.0.0.1:4222; several with commas between
	Name     string // as it stands in the server's list of connections
	User     string // with Password; "" = what the URL carries, if anything
	Password string
	Creds    string // path of a credentials file; "" = none
	CA       string // path of a PEM file with the authorities that vouch for the server; "" = those of the system
	// Timeout bounds each attempt to connect (default 2 s).
	Timeout time.Duration
	// Wait is how long the first connection may take, trying again and again;
	// 0 = one attempt. A connection that was lost is always restored for ever.
	Wait   time.Duration
	Logger *slog.Logger // gets losses, restorations and asynchronous errors (default: discarded)
	// NoBuffer refuses what is sent while the connection is lost, instead of
	// keeping it until it is back. It is for callers that wait for an answer.
	NoBuffer bool
}

// bufferWhileLost is what a connection keeps to send when it is back, in bytes.
const bufferWhileLost = 8 << 20

// reconnectWait is the pause between attempts to restore a connection.
const reconnectWait = 250 * time.Millisecond

// Connect opens a connection to a server. The error wraps ErrUnreachable when
// there is none at the URL.
func Connect(ctx context.Context, cfg ConnectConfig) (*nats.Conn, error) {
	opts := connOptions(cfg)
	if cfg.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Wait, fmt.Errorf("no connection within %s", cfg.Wait))
		defer cancel()
	}
	for {
		nc, err := nats.Connect(cfg.URL, opts...)
		if err == nil {
			return nc, nil
		}
		err = connectError(cfg.URL, err)
		if cfg.Wait <= 0 || !errors.Is(err, ErrUnreachable) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(reconnectWait):
		}
	}
}

// redact hides a password that stands in a URL, or in a list of URLs.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		u, err := url.Parse(strings.TrimSpace(p))
		if err != nil {
			parts[i] = "(not a URL)"
			continue
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, ",")
}

func connectError(urls string, err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("connect to %s: %w: %w", redact(urls), ErrNotAllowed, err)
	default:
		return fmt.Errorf("connect to %s: %w: %w", redact(urls), ErrUnreachable, err)
	}
}

// connOptions are the options of every connection of Muster.
func connOptions(cfg ConnectConfig) []nats.Option {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("connection", cfg.Name)
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	buffer := bufferWhileLost
	if cfg.NoBuffer {
		buffer = -1
	}
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.Timeout(cfg.Timeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(buffer),
		nats.PingInterval(20 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost; it will be restored", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection to NATS restored", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if sub != nil {
				log.Warn("NATS subscription", "subject", sub.Subject, "error", err)
				return
			}
			log.Warn("NATS connection", "error", err)
		}),
	}
	if cfg.User != "" {
		opts = append(opts, nats.UserInfo(cfg.User, cfg.Password), inboxOf(cfg.User))
	} else if u, err := url.Parse(cfg.URL); err == nil && u.User != nil && u.User.Username() != "" {
		opts = append(opts, inboxOf(u.User.Username()))
	}
	if cfg.CA != "" {
		opts = append(opts, nats.RootCAs(cfg.CA))
	}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	return opts
}

// inboxOf has a user answered on subjects of its own, if its name can stand in one.
func inboxOf(user string) nats.Option {
	if eventlog.Token(user) != user {
		return func(*nats.Options) error { return nil }
	}
	return nats.CustomInboxPrefix(InboxPrefix(user))
}
