package app

import (
	"context"
	"fmt"
	"time"

	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/eventlog"
)

// startFeed opens the live feed. It is there before the writers and ends behind
// them, so that it hears of every event.
func (a *App) startFeed(context.Context) error {
	nc, err := a.Connect("muster feed")
	if err != nil {
		return fmt.Errorf("open the feed: %w", err)
	}
	cfg := feed.Config{Conn: nc, Logger: a.log.With("component", "feed")}
	if a.server != nil {
		cfg.Interest = a.server.Interest // another server's subscriptions cannot be seen
	}
	a.feed = feed.New(cfg)
	a.openStream()
	a.onEnd("feed", 5*time.Second, a.feed.Close)
	return nil
}

// committed hands stored records on, without a way through the server.
func (a *App) committed(partition int, records []eventlog.Record) {
	a.views.offer(partition, records)
	a.feed.Offer(partition, records)
	a.stream.Offer(partition, records)
	a.alerts.offer(partition, records)
	a.offerArchive(partition, records)
}
