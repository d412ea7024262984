package projections

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// History is what a Runner needs of an [eventlog.Log].
type History interface {
	Source
	Partitions() int
	Info(ctx context.Context, partition int) (eventlog.Info, error)
	Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// Decode overwrites e with the event of a record. The event need not outlive
// the next call.
type Decode func(record []byte, e *domain.Event) error

// Config is what a Runner is made of. History, Roster and Views must be given.
type Config struct {
	History History
	// Source is where records are followed; nil: History. See Tee.
	Source Source
	// Roster is the one that the views were made with; it must be empty.
	Roster *Roster
	Views  []View

	// Blobs keeps the saved state; nil: nothing is saved, and every start
	// replays from the first record.
	Blobs eventlog.Blobs
	// Name is the name of the saved state; "": DefaultName.
	Name string
	// SaveEvery and SaveAfter say how often the state is saved: when so much
	// time has passed or so many events have been applied since the last time,
	// but never while nothing has changed. 0: the defaults.
	SaveEvery time.Duration
	SaveAfter uint64

	// NewDecode gives each partition its own decoder; nil: codec.NewReader.
	NewDecode func() Decode

	// Poison says what becomes of a view that cannot take an event, and PoisonOf
	// what becomes of those that it names.
	Poison   Poison
	PoisonOf map[string]Poison

	// OnAlarm is called for each alarm, from the goroutine of its partition;
	// nil: alarms are only counted and kept.
	OnAlarm func(Alarm)
	// OnNotice is called with what an operator should read but need not act
	// on: a saved state that was discarded, a save that failed. nil: they are
	// only counted.
	OnNotice func(error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// The defaults of Config.
const (
	DefaultName      = "views"
	DefaultSaveEvery = 5 * time.Minute
	DefaultSaveAfter = 100_000
)

// withDefaults checks c and fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.History == nil || c.Roster == nil:
		return c, errors.New("a runner needs a history and a roster")
	case len(c.Views) == 0:
		return c, errors.New("a runner needs a view")
	case c.Roster.Partitions() != c.History.Partitions():
		return c, fmt.Errorf("the roster has %d partitions, the history %d", c.Roster.Partitions(), c.History.Partitions())
	}
	names := map[string]bool{}
	for _, v := range c.Views {
		if names[v.Name()] {
			return c, fmt.Errorf("two views are named %q", v.Name())
		}
		names[v.Name()] = true
	}
	for name := range c.PoisonOf {
		if !names[name] {
			return c, fmt.Errorf("there is no view %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
	}
	if c.Source == nil {
		c.Source = c.History
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.SaveEvery <= 0 {
		c.SaveEvery = DefaultSaveEvery
	}
	if c.SaveAfter == 0 {
		c.SaveAfter = DefaultSaveAfter
	}
	if c.NewDecode == nil {
		c.NewDecode = func() Decode { return codec.NewReader().Read }
	}
	if c.OnAlarm == nil {
		c.OnAlarm = func(Alarm) {}
	}
	if c.OnNotice == nil {
		c.OnNotice = func(error) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
