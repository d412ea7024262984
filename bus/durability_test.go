package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/musterhq/muster/eventlog/natstest"
)

// withSystemUser makes a server that has a user of its system account.
func withSystemUser(o *server.Options) {
	sys, app := server.NewAccount("$SYS"), server.NewAccount("$G")
	o.Accounts = []*server.Account{sys, app}
	o.SystemAccount = "$SYS"
	o.Users = []*server.User{
		{Username: "sys", Password: "sys", Account: sys},
		{Username: "app", Password: "app", Account: app},
	}
}

func TestServerDurability(t *testing.T) {
	always := natstest.Run(t, natstest.Listen, natstest.SyncAlways, withSystemUser)
	seldom := natstest.Run(t, natstest.Listen, withSystemUser, func(o *server.Options) { o.SyncInterval = 30 * time.Second })
	tests := map[string]struct {
		url, user string
		want      Durability
	}{
		"always":                       {always.URL(), "sys", Durability{Known: true, Servers: 1, Always: true}},
		"interval":                     {seldom.URL(), "sys", Durability{Known: true, Servers: 1, Interval: 30 * time.Second}},
		"not told to ordinary clients": {always.URL(), "app", Durability{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nc := dial(t, ConnectConfig{URL: tt.url, User: tt.user, Password: tt.user})
			got, err := ServerDurability(t.Context(), nc)
			if err != nil {
				t.Fatal(err)
			}
			if got.Version != server.VERSION {
				t.Errorf("version %q", got.Version)
			}
			got.Version = ""
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestWhatAnAckMeans(t *testing.T) {
	tests := []struct {
		d        Durability
		replicas int
		says     []string
	}{
		{Durability{}, 1, []string{"sync_interval", "power cut can lose"}},
		{Durability{Known: true, Always: true}, 1, []string{"is on the server's disk"}},
		{Durability{Known: true, Always: true}, 3, []string{"on the disks of a majority of 3 servers"}},
		{Durability{Known: true, Interval: 2 * time.Minute}, 1, []string{"on disk within 2m0s", "not a power cut"}},
		{Durability{Known: true, Interval: 2 * time.Minute}, 3, []string{"memory of a majority of 3", "all at once would lose it"}},
	}
	for _, tt := range tests {
		got := tt.d.Ack(tt.replicas)
		for _, part := range tt.says {
			if !strings.Contains(got, part) {
				t.Errorf("%+v, %d replicas: %q does not say %q", tt.d, tt.replicas, got, part)
			}
		}
	}
}
