package readytime

import (
	"cmp"
	"math"
	"slices"
)

// End says how an episode ended, or that it has not.
type End uint8

// The ends of an episode.
const (
	Reached   End = iota + 1 // the account is in a state of class ready
	Abandoned                // it was stopped, logged out or forgotten first
	Waiting                  // it still waits
)

// Observation is a number of episodes that lasted equally long and ended in
// the same way; those that still wait lasted until now.
type Observation struct {
	Seconds  float64
	End      End
	Episodes int
}

// z95 is the normal deviate of a two-sided 95 % band.
const z95 = 1.959963984540054

// tiny forgives what floating point does to a curve that reaches a level exactly.
const tiny = 1e-12

// Step is the estimate from one time on, until the next step.
type Step struct {
	Seconds float64
	AtRisk  int // episodes that had lasted at least so long and had not ended before
	Reached int // of them, those that reached RUNNING at this time

	// Survival is the Kaplan-Meier estimate of the share that has not reached
	// RUNNING by this time, if nobody gave up; Low and High are its 95 % band:
	// Greenwood's variance on the scale log(-log S). They are NaN where the
	// band does not exist, which is where Survival is 0 or 1.
	Survival, Low, High float64

	// The Aalen-Johansen estimates: the shares that have reached RUNNING and
	// that have given up by this time. They and the share that still waits
	// add up to 1.
	ShareReached, ShareAbandoned float64
}

// Curve is the estimate over all time, one Step for each time at which an
// episode ended, ascending.
//
// Those that still wait are censored: they count as at risk as long as they
// have waited, and then leave. An abandoned episode is a competing event. In
// Survival, and so in every quantile, it leaves the risk set at its time like a
// censored one (the cause-specific hazard): a quantile answers how long it
// takes those who do not give up. What share gives up is told beside it by
// ShareReached and ShareAbandoned, which do not treat it as censored.
type Curve []Step

// Fit estimates the curve. Of equal times, ends count before censoring.
func Fit(observations []Observation) Curve {
	sorted := slices.Clone(observations)
	slices.SortFunc(sorted, func(a, b Observation) int { return cmp.Compare(a.Seconds, b.Seconds) })
	atRisk := 0
	for _, o := range sorted {
		atRisk += o.Episodes
	}
	var curve Curve
	survival, variance := 1.0, 0.0 // Kaplan-Meier, and the sum of Greenwood's terms
	waiting, reached, abandoned := 1.0, 0.0, 0.0
	for i := 0; i < len(sorted); {
		var ended [Waiting + 1]int
		at := sorted[i].Seconds
		for ; i < len(sorted) && sorted[i].Seconds == at; i++ {
			ended[sorted[i].End] += sorted[i].Episodes
		}
		n, d, c := float64(atRisk), float64(ended[Reached]), float64(ended[Abandoned])
		if d+c > 0 {
			survival *= (n - d) / n
			variance += d / (n * (n - d)) // +Inf when all that are left reach it
			reached += waiting * d / n
			abandoned += waiting * c / n
			waiting *= (n - d - c) / n
			low, high := band(survival, variance)
			curve = append(curve, Step{
				Seconds: at, AtRisk: atRisk, Reached: ended[Reached],
				Survival: survival, Low: low, High: high,
				ShareReached: reached, ShareAbandoned: abandoned,
			})
		}
		atRisk -= ended[Reached] + ended[Abandoned] + ended[Waiting]
	}
	return curve
}

// band is the 95 % band of a survival.
func band(survival, variance float64) (low, high float64) {
	if survival <= 0 || survival >= 1 {
		return math.NaN(), math.NaN()
	}
	spread := math.Exp(z95 * math.Sqrt(variance) / -math.Log(survival))
	return math.Pow(survival, spread), math.Pow(survival, 1/spread)
}

// Quantile is the time by which a share of the episodes has reached RUNNING,
// in seconds, with its 95 % band. nil: the estimate (or its band) does not
// reach that share, because too many still wait.
type Quantile struct {
	Seconds   *float64
	Low, High *float64
}

// Quantile returns the time by which the share p (0 < p < 1) has reached
// RUNNING: the first at which no more than 1-p has not. Its band runs from the
// first time at which the band of the curve reaches that level to the first
// time at which all of the band lies below it.
func (c Curve) Quantile(p float64) Quantile {
	level := 1 - p + tiny
	var q Quantile
	for i := range c {
		s := &c[i]
		if q.Seconds == nil && s.Survival <= level {
			q.Seconds = &s.Seconds
		}
		if q.Low == nil && s.Low <= level { // false for NaN
			q.Low = &s.Seconds
		}
		if q.High == nil && s.High <= level {
			q.High = &s.Seconds
		}
	}
	return q
}

// Shares returns the shares that have reached RUNNING and that have given up
// by the last time at which any episode ended.
func (c Curve) Shares() (reached, abandoned float64) {
	if len(c) == 0 {
		return 0, 0
	}
	last := c[len(c)-1]
	return last.ShareReached, last.ShareAbandoned
}
