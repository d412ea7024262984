package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Config describes a fleet. Accounts is required.
type Config struct {
	Accounts int
	Seed     uint64
	Start    time.Time // when the virtual clock begins (default 2026-01-01T00:00:00Z)
	Profile  Profile   // default Realistic
	// Machine is that of all accounts; "" = a mix: mostly whatsapp@2, some
	// wecom@1 and instance@1.
	Machine string
	// Workers is how many workers the connections are spread over (default one
	// for 250 accounts, 2 at least).
	Workers int
	IDs     string // what the triggers' ids begin with; "" = they have none
	// CalmFor is how long no worker dies and no client is refused.
	CalmFor time.Duration
	// Stamp turns the virtual clock into the times that triggers carry; nil: as
	// it is. It must not run backwards.
	Stamp func(virtual int64) int64
	// Speed is how many virtual seconds pass in one of Stamp's (default 1).
	// What Muster counts by its own clock, heartbeats, comes accordingly.
	Speed float64
}

// Profile says what a fleet does how often. A mean of 0 means never.
type Profile struct {
	About     string
	Ramp      time.Duration // within which all accounts are onboarded
	Episode   time.Duration // mean time between two things that befall an account
	Message   time.Duration // mean time between two messages that an account sends
	Customer  time.Duration // mean time between two messages that customers send it
	Outage    time.Duration // mean time between two deaths of a worker
	Outdated  time.Duration // mean time between two refusals of all of a worker's accounts
	NeverScan float64       // share of QR codes that nobody scans
	Severe    float64       // weight of bans, logouts and stolen sessions; 1 = as usual
}

// profiles are the fleets that can be named.
var profiles = map[string]Profile{
	"realistic": {
		About: "a fleet at work: messages, short losses, now and then a ban, a logout or a dead worker",
		Ramp:  10 * time.Minute, Episode: 40 * time.Minute, Message: 90 * time.Second, Customer: 4 * time.Minute,
		Outage: 6 * time.Hour, Outdated: 48 * time.Hour, NeverScan: 0.08, Severe: 1,
	},
	"calm": {
		About: "hardly anything goes wrong",
		Ramp:  10 * time.Minute, Episode: 8 * time.Hour, Message: 2 * time.Minute, Customer: 5 * time.Minute, NeverScan: 0.01, Severe: 0.2,
	},
	"storm": {
		About: "connections break all the time, workers die, accounts are banned and log out",
		Ramp:  5 * time.Minute, Episode: 4 * time.Minute, Message: 3 * time.Minute, Customer: 10 * time.Minute,
		Outage: 20 * time.Minute, Outdated: 2 * time.Hour, NeverScan: 0.2, Severe: 3,
	},
	"onboarding": {
		About: "accounts are brought up, many QR codes are never scanned, and little else",
		Ramp:  2 * time.Hour, Episode: 12 * time.Hour, NeverScan: 0.35, Severe: 1,
	},
	"messages": {
		About: "messages and conversations, on connections that hold",
		Ramp:  2 * time.Minute, Episode: 12 * time.Hour, Message: 8 * time.Second, Customer: 12 * time.Second, NeverScan: 0.01, Severe: 0.2,
	},
}

// ProfileNames lists the profiles that ProfileNamed knows.
func ProfileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// ProfileNamed returns a profile. The error names those there are.
func ProfileNamed(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("there is no profile %q; it is one of %s", name, strings.Join(ProfileNames(), ", "))
	}
	return p, nil
}

// Machines lists the machines whose accounts can be played.
func Machines() []string { return []string{"whatsapp@2", "whatsapp@1", "wecom@1", "instance@1"} }

func (c Config) withDefaults() (Config, error) {
	if c.Accounts < 1 || c.Accounts > 10_000_000 {
		return c, fmt.Errorf("accounts is %d; from 1 to 10000000 are possible", c.Accounts)
	}
	if c.Machine != "" && !slices.Contains(Machines(), c.Machine) {
		return c, fmt.Errorf("accounts of %q cannot be played; it is one of %s", c.Machine, strings.Join(Machines(), ", "))
	}
	if c.Start.IsZero() {
		c.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if c.Profile == (Profile{}) {
		c.Profile = profiles["realistic"]
	}
	if c.Workers == 0 {
		c.Workers = max(2, c.Accounts/250)
	}
	if c.Workers < 1 || c.Workers > 1000 {
		return c, fmt.Errorf("workers is %d; from 1 to 1000 are possible", c.Workers)
	}
	if c.Stamp == nil {
		c.Stamp = func(virtual int64) int64 { return virtual }
	}
	if c.Speed <= 0 {
		c.Speed = 1
	}
	return c, nil
}
