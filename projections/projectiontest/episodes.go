package projectiontest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
)

// Episode is one that the plain reading of the rules of time to RUNNING finds.
type Episode struct {
	Kind       string // onboarding or recovery
	Began, End int64  // unix ns; of one that is open, End is the end of the history
	How        string // reached, abandoned or open
	Reason     string
	Account    *domain.Account // as it was at the end, or is
}

// Episodes finds all episodes of a history, account by account.
func (h *History) Episodes() []Episode {
	byAccount := map[domain.AccountID][]*domain.Event{}
	for _, i := range h.Items {
		byAccount[i.Event.Account] = append(byAccount[i.Event.Account], i.Event)
	}
	var all []Episode
	for _, events := range byAccount {
		all = append(all, h.episodesOf(events)...)
	}
	return all
}

// episodesOf finds the episodes of one account.
func (h *History) episodesOf(events []*domain.Event) (all []Episode) {
	var current *Episode
	var a *domain.Account
	been := false // ready before, or adopted
	for _, e := range events {
		before, state := "", e.Initial
		if a != nil {
			before, state = h.Judge.Class(a), a.State
		}
		a = domain.Evolve(a, e)
		class := h.Judge.Class(a)
		forgotten := e.Effects&domain.EffectForget != 0
		if a.State == state && before != "" && !forgotten {
			continue
		}
		logout := e.Trigger == "logout" || e.To == "LOGGED_OUT"
		gone := logout || forgotten || class == "stopped" || class == "idle"
		switch {
		case current != nil && (gone || class == "ready"):
			current.How, current.End, current.Account = "reached", e.At, a.Clone()
			if gone {
				current.How = "abandoned"
			}
			all = append(all, *current)
			current = nil
		case current != nil, gone, e.Trigger == "adopt":
		case !been && (class == "starting" || class == "human"):
			current = &Episode{Kind: "onboarding", Began: e.At, Reason: cmp.Or(e.Reason.Code, e.Trigger)}
		case been && (before == "ready" || before == "limited") && slices.Contains([]string{"down", "recovering", "starting", "human"}, class):
			current = &Episode{Kind: "recovery", Began: e.At, Reason: cmp.Or(e.Reason.Code, e.Trigger)}
		}
		been = been || class == "ready" || e.Trigger == "adopt"
	}
	if current != nil {
		current.How, current.End, current.Account = "open", h.End, a
		all = append(all, *current)
	}
	return all
}

// Figures are what episodes come to, in seconds; nil where there is no figure.
type Figures struct {
	Reached, Abandoned, Open int
	Mean                     *float64
	Median, P90, P99         [3]*float64 // the quantile, and its 95 % band
}

// FiguresOf works them out from the single lengths: for every length at which one
// was reached, those that lasted at least so long are counted one by one.
func FiguresOf(list []Episode) (f Figures) {
	var lengths, reached []float64
	sum := 0.0
	for _, e := range list {
		length := time.Duration(max(0, e.End-e.Began)).Seconds()
		lengths = append(lengths, length)
		switch e.How {
		case "reached":
			f.Reached++
			reached = append(reached, length)
			sum += length
		case "abandoned":
			f.Abandoned++
		default:
			f.Open++
		}
	}
	if f.Reached > 0 {
		mean := sum / float64(f.Reached)
		f.Mean = &mean
	}
	for _, q := range []struct {
		of   *[3]*float64
		left float64 // the share that has not reached it
	}{{&f.Median, 0.5}, {&f.P90, 0.1}, {&f.P99, 0.01}} {
		*q.of = quantile(lengths, reached, q.left)
	}
	return f
}

// quantile is the Kaplan-Meier quantile: the first length at which no more than so
// many are left, and the same for both ends of the 95 % band of what is left, which
// is Greenwood's on the scale of log(-log S).
func quantile(lengths, reached []float64, left float64) (q [3]*float64) {
	times := slices.Clone(reached)
	slices.Sort(times)
	s, variance := 1.0, 0.0
	for _, t := range slices.Compact(times) {
		n, d := 0.0, 0.0
		for _, l := range lengths {
			if l >= t {
				n++
			}
		}
		for _, l := range reached {
			if l == t {
				d++
			}
		}
		s *= 1 - d/n
		variance += d / (n * (n - d))
		half := 1.959964 * math.Sqrt(variance) / math.Abs(math.Log(s))
		middle := math.Log(-math.Log(s))
		for i, estimate := range []float64{s, math.Exp(-math.Exp(middle + half)), math.Exp(-math.Exp(middle - half))} {
			if q[i] == nil && estimate <= left+1e-9 {
				at := t
				q[i] = &at
			}
		}
	}
	return q
}
