package alert

import (
	"cmp"
	"maps"
	"slices"
)

// change is one entry of the journal: exactly one field is set.
type change struct {
	Switch *bool      `json:"on,omitempty"`
	At     *position  `json:"p,omitempty"`
	Open   *item      `json:"o,omitempty"`
	Shut   *itemRef   `json:"c,omitempty"`
	Routed *itemRef   `json:"d,omitempty"`
	Join   *joining   `json:"j,omitempty"`
	Move   *moving    `json:"m,omitempty"`
	Told   *telling   `json:"t,omitempty"`
	Gone   string     `json:"g,omitempty"` // key of a group
	Make   *Delivery  `json:"a,omitempty"`
	Result *resulting `json:"r,omitempty"`
	Gate   *gating    `json:"e,omitempty"`
}

type position struct {
	Part int    `json:"p"`
	Seq  uint64 `json:"q"`
}

type itemRef struct {
	Account string `json:"a"`
	Kind    string `json:"k"`
}

type joining struct {
	group          // only what names it
	Account string `json:"a"`
	Phase   phase  `json:"ph"`
	At      int64  `json:"t"`
	Began   int64  `json:"s"`
}

type moving struct {
	Group   string `json:"g"`
	Account string `json:"a"`
	To      phase  `json:"ph"` // "" = it leaves the group
}

// telling is the end of a group's wait, or what else became of it as a whole.
type telling struct {
	Group    string   `json:"g"`
	At       int64    `json:"t,omitempty"`
	Incident bool     `json:"i,omitempty"` // those that wait are told as an incident; else one by one
	None     bool     `json:"z,omitempty"` // nobody is told yet
	Remind   int64    `json:"m,omitempty"`
	Again    bool     `json:"r,omitempty"` // a reminder was made
	Ended    bool     `json:"x,omitempty"`
	Sample   []string `json:"s,omitempty"`
	Full     *shape   `json:"f,omitempty"` // all of it, in a snapshot
}

type shape struct {
	First, Last, Since, Waits, Told, Remind int64
	Nth                                     int
	Ended                                   bool
}

type resulting struct {
	ID       string `json:"id"`
	Status   Status `json:"st"`
	Attempts int    `json:"x"`
	Next     int64  `json:"nx,omitempty"`
	Code     int    `json:"c,omitempty"`
	Err      string `json:"e,omitempty"`
	Done     int64  `json:"dn,omitempty"`
}

type gating struct {
	Endpoint string `json:"ep"`
	Shut     *gate  `json:"g,omitempty"` // nil = it is open again
}

// dump yields changes that make this state of an empty one.
func (s *state) dump() []change {
	list := []change{{Switch: &s.on}}
	for _, p := range slices.Sorted(maps.Keys(s.positions)) {
		list = append(list, change{At: &position{p, s.positions[p]}})
	}
	for _, kinds := range s.items {
		for _, i := range kinds {
			list = append(list, change{Open: i})
		}
	}
	groups := slices.SortedFunc(maps.Values(s.groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.key(), b.key()))
	})
	for _, g := range groups {
		list = append(list, s.dumpGroup(g)...)
	}
	for _, d := range s.finished {
		list = append(list, change{Make: d})
	}
	for _, waiting := range s.waiting {
		for _, d := range waiting {
			list = append(list, change{Make: d})
		}
	}
	for name, g := range s.gates {
		list = append(list, change{Gate: &gating{name, &g}})
	}
	return list
}

// dumpGroup yields changes that make a group.
func (s *state) dumpGroup(g *group) (list []change) {
	names := group{ID: g.ID, Endpoint: g.Endpoint, Kind: g.Kind, Source: g.Source, Reason: g.Reason}
	for a, p := range g.Members {
		list = append(list, change{Join: &joining{group: names, Account: a, Phase: p, At: g.First, Began: g.Since}})
	}
	list = append(list, change{Told: &telling{Group: g.key(), Sample: g.Sample, Full: &shape{g.First, g.Last, g.Since, g.Waits, g.Told, g.Remind, g.Nth, g.Ended}}})
	return list
}
