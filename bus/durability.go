package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natsext"
)

// Durability is what could be learned of how a server, or all servers of a
// cluster, bring a stored message to disk.
type Durability struct {
	Known     bool          // false: the server does not tell this connection
	Version   string        // of the server that the connection is on
	Clustered bool          // that server is part of a cluster
	Servers   int           // how many servers told
	Always    bool          // all of them sync each message before they acknowledge it
	Interval  time.Duration // else: the longest time until one of them syncs
}

// askServers bounds the question to the servers.
const askServers = 2 * time.Second

// serverSync is how often a server syncs when its configuration does not say.
const serverSync = 2 * time.Minute

// ServerDurability asks the servers behind a connection how they sync. Only a
// connection of the system account is told; for others Known is false and no
// error is returned.
func ServerDurability(ctx context.Context, nc *nats.Conn) (Durability, error) {
	d := Durability{Version: nc.ConnectedServerVersion(), Clustered: nc.ConnectedClusterName() != ""}
	ctx, cancel := context.WithTimeout(ctx, askServers)
	defer cancel()
	answers, err := natsext.RequestMany(ctx, nc, "$SYS.REQ.SERVER.PING.VARZ", nil, natsext.RequestManyStall(askServers/4))
	if err != nil {
		return d, fmt.Errorf("ask the servers how they sync: %w", err)
	}
	d.Always = true
	for m, err := range answers {
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
			continue
		case err != nil:
			return d, fmt.Errorf("ask the servers how they sync: %w", err)
		}
		if err := d.add(m.Data); err != nil {
			return d, fmt.Errorf("ask the servers how they sync: %w", err)
		}
	}
	d.Known = d.Servers > 0
	d.Always = d.Always && d.Known
	return d, nil
}

// add takes one server's answer in. Servers without JetStream store nothing.
func (d *Durability) add(answer []byte) error {
	var v struct {
		Data struct {
			JetStream server.JetStreamVarz `json:"jetstream"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	c := v.Data.JetStream.Config
	if c == nil {
		return nil
	}
	d.Servers++
	if c.SyncAlways {
		return nil
	}
	d.Always = false
	if c.SyncInterval == 0 {
		c.SyncInterval = serverSync
	}
	d.Interval = max(d.Interval, c.SyncInterval)
	return nil
}

// Ack says in one sentence what an acknowledgement of a stream with so many
// replicas means on these servers.
func (d Durability) Ack(replicas int) string {
	where := "on the server's disk"
	if replicas > 1 {
		where = fmt.Sprintf("on the disks of a majority of %d servers", replicas)
	}
	switch {
	case !d.Known:
		return "an acknowledgement means as much as the server's sync_interval: with `always` the event is " + where +
			"; else a power cut can lose what was not synced yet (the server tells only its system account which it is)"
	case d.Always:
		return "an acknowledged event is " + where
	case replicas > 1:
		return fmt.Sprintf("an acknowledged event is in the memory of a majority of %d servers and on disk within %s: "+
			"one may lose power, all at once would lose it; set sync_interval: always there", replicas, d.Interval)
	default:
		return fmt.Sprintf("an acknowledged event is on disk within %s: it survives a crash of the server, but not a power cut; "+
			"set sync_interval: always there", d.Interval)
	}
}
