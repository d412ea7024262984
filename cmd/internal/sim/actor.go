package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/musterhq/muster/domain"
)

// what a step is for.
const (
	says      uint8 = iota // the account's connection says something
	decides                // what befalls the account next
	writes                 // the account sends a message
	customers              // a customer writes
	talks                  // a fact about a message or conversation; outlives a lost connection
	beats                  // a heartbeat of wecom
)

// step is something that an account does at a time of the virtual clock.
type step struct {
	at    int64
	what  uint8
	fresh bool // a new connection begins with it
	again bool // the same delivery once more: epoch, seq and id are given
	epoch int64
	seq   int64
	id    string

	trigger string
	key     string
	by      domain.Initiator
	code    string // reason
	data    domain.Data
	until   [2]until // times that go into the data
}

// until is a time in a trigger's data.
type until struct {
	field string
	in    time.Duration // after the step
}

// actor is one account.
type actor struct {
	rng     rand.PCG
	id      domain.AccountID
	kind    uint8 // index in Machines()
	worker  int32
	known   bool // Muster has heard of it
	up      bool // really online
	paired  bool // can come up without a QR code
	limited bool // does not send for now
	told    bool // its connector also tells of scans and syncs
	epoch   int64
	seq     int64
	n       int64 // messages so far
	cursor  int64 // wecom
	plan    []step
}

// The kinds, as in Machines().
const (
	whatsapp2 uint8 = iota
	whatsapp1
	wecom
	instance
)

// float is a number from 0 up to 1.
func (a *actor) float() float64 { return float64(a.rng.Uint64()>>11) / (1 << 53) }

// chance is true with the probability p.
func (a *actor) chance(p float64) bool { return a.float() < p }

// between is a time from low to high.
func (a *actor) between(low, high time.Duration) time.Duration {
	return low + time.Duration(a.float()*float64(high-low))
}

// about is a time with the given mean, as waiting times are: mostly shorter,
// sometimes much longer.
func (a *actor) about(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-a.float()) * float64(mean))
}

// pick chooses an index by weight.
func (a *actor) pick(weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	x := a.float() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// add puts a step into the plan, behind those of the same time.
func (a *actor) add(s step) {
	i := len(a.plan)
	for i > 0 && a.plan[i-1].at > s.at {
		i--
	}
	a.plan = slices.Insert(a.plan, i, s)
}

// say plans a trigger of the account's connection.
func (a *actor) say(at int64, trigger string, change ...func(*step)) {
	s := step{at: at, what: says, trigger: trigger}
	for _, c := range change {
		c(&s)
	}
	a.add(s)
}

// user plans something that an operator does.
func (a *actor) user(at int64, trigger string) {
	a.add(step{at: at, what: says, trigger: trigger, by: domain.ByUser})
}

// decide plans the next decision.
func (a *actor) decide(at int64) { a.add(step{at: at, what: decides}) }

// cut drops what the account's connection had before it.
func (a *actor) cut() {
	a.plan = slices.DeleteFunc(a.plan, func(s step) bool { return s.what == says || s.what == decides || s.what == beats })
}

func fresh(s *step) { s.fresh = true }

func code(c string) func(*step) { return func(s *step) { s.code = c } }

func data(d domain.Data) func(*step) { return func(s *step) { s.data = d } }

// lasts puts a time into the data that lies so far behind the step.
func lasts(field string, in time.Duration) func(*step) {
	return func(s *step) {
		if s.until[0].field == "" {
			s.until[0] = until{field, in}
			return
		}
		s.until[1] = until{field, in}
	}
}

// after is a moment of the virtual clock.
func after(at int64, d time.Duration) int64 { return at + int64(d) }

// name is a key such as m-17.
func name(prefix string, n int64) string {
	b := make([]byte, 0, len(prefix)+8)
	return string(strconv.AppendInt(append(b, prefix...), n, 10))
}
