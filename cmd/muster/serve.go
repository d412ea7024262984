package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/buildinfo"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/redact"
	"github.com/musterhq/muster/cmd/internal/telemetry"
)

func newServe(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: take triggers, judge them, keep every account's history, and answer.

Without any configuration it runs its own NATS server, keeps its data in ./muster-data and
listens on this machine only: NATS on 127.0.0.1:4222, HTTP on 127.0.0.1:8080 (/healthz,
/readyz). SIGINT or SIGTERM ends it in order; a second one at once, which loses nothing that
was acknowledged.

A flag wins over the environment (MUSTER_DATA for --data), that over the file of --config.`,
		Example: "  muster serve\n  muster serve --data /var/lib/muster --sync always",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags())
			if err != nil {
				return as(errUsage, err)
			}
			machines, origins, err := registry(cfg.Machines)
			if err != nil {
				return err
			}
			opts := app.Options{
				Config: cfg, Machines: machines, Origins: origins,
				Version: buildinfo.Read().Version, Logger: newLogger(c.err, &cfg),
			}
			if cfg.LogTransitions {
				opts.Transitions = c.err
			}
			if opts.Tracer, err = telemetry.OpenTracer(cmd.Context(), opts.Version); err != nil {
				return as(errUsage, err)
			}
			return app.New(opts).Run(cmd.Context())
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// newLogger is the program's own log, on stderr, without tokens and telephone numbers.
func newLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelInfo // config has checked it
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(redact.New(slog.NewJSONHandler(w, opts)))
	}
	return slog.New(redact.New(slog.NewTextHandler(w, opts)))
}
