package api

// The names of the questions about the views.
const (
	ProjectionsQuery = "projections"         // ProjectionsRequest → Projections
	RebuildQuery     = "projections.rebuild" // RebuildRequest → Projection
)

// ProjectionsRequest asks how the views fare.
type ProjectionsRequest struct{}

// Projections is how the views fare.
type Projections struct {
	Projections []Projection      `json:"projections"`
	Alarms      map[string]uint64 `json:"alarms"`             // what is wrong with the history: how often each kind was met since the start
	SavedAt     string            `json:"saved_at,omitempty"` // when all views were saved last; absent: not since the start
	AsOf        AsOf              `json:"as_of"`              // what every view holds that is not halted
}

// Projection is one view.
type Projection struct {
	Name    string  `json:"name"`
	Version int     `json:"version"`
	State   string  `json:"state"`            // live, parked (live, but it has passed events over), halted or rebuilding
	Halted  []int   `json:"halted,omitempty"` // the partitions of which it takes no more events
	Parked  uint64  `json:"parked,omitempty"` // events that it has passed over
	Faults  []Fault `json:"faults,omitempty"` // the first events that it could not take
	Rebuild Rebuild `json:"rebuild,omitzero"` // the one that goes on, or the last one
}

// Fault is an event that a view could not take.
type Fault struct {
	Partition int    `json:"partition"`
	Seq       uint64 `json:"seq"`
	Account   string `json:"account"`
	Error     string `json:"error"`
}

// Rebuild is how far a rebuild has come, or how it ended.
type Rebuild struct {
	Running   bool     `json:"running"`
	Started   string   `json:"started"`
	Ended     string   `json:"ended,omitempty"`
	Done      uint64   `json:"done"`       // records folded
	Total     uint64   `json:"total"`      // records to fold when it began
	PerSecond float64  `json:"per_second"` // on average
	Left      *float64 `json:"left_s,omitempty"`
	Failed    string   `json:"failed,omitempty"` // why it ended without success; the old state stayed
}

// RebuildRequest asks for a view to be folded anew beside the one that answers. The
// answer comes when it has begun; Projections tells how it goes on.
type RebuildRequest struct {
	Name    string  `json:"name"`
	MaxRate float64 `json:"max_rate,omitempty"` // records per second at most; 0 = as many as it can
}
