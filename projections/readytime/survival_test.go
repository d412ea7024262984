package readytime

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The remission times (weeks) of Freireich et al., "The effect of
// 6-mercaptopurine on the duration of steroid-induced remissions in acute
// leukemia", Blood 21 (1963), as they stand in the textbooks of Kalbfleisch
// and Prentice, and of Kleinbaum and Klein.
var (
	mercaptopurine = []Observation{
		{6, Reached, 3}, {7, Reached, 1}, {10, Reached, 1}, {13, Reached, 1}, {16, Reached, 1}, {22, Reached, 1}, {23, Reached, 1},
		{6, Waiting, 1}, {9, Waiting, 1}, {10, Waiting, 1}, {11, Waiting, 1}, {17, Waiting, 1}, {19, Waiting, 1},
		{20, Waiting, 1}, {25, Waiting, 1}, {32, Waiting, 2}, {34, Waiting, 1}, {35, Waiting, 1},
	}
	placebo = []Observation{
		{1, Reached, 2}, {2, Reached, 2}, {3, Reached, 1}, {4, Reached, 2}, {5, Reached, 2}, {8, Reached, 4},
		{11, Reached, 2}, {12, Reached, 2}, {15, Reached, 1}, {17, Reached, 1}, {22, Reached, 1}, {23, Reached, 1},
	}
)

func TestFreireich1963(t *testing.T) {
	// The published Kaplan-Meier table of the 6-MP arm: time, at risk, events,
	// survival, and its 95 % band on the log(-log) scale.
	want := []Step{
		{Seconds: 6, AtRisk: 21, Reached: 3, Survival: 0.8571, Low: 0.6197, High: 0.9516},
		{Seconds: 7, AtRisk: 17, Reached: 1, Survival: 0.8067, Low: 0.5631, High: 0.9228},
		{Seconds: 10, AtRisk: 15, Reached: 1, Survival: 0.7529, Low: 0.5032, High: 0.8894},
		{Seconds: 13, AtRisk: 12, Reached: 1, Survival: 0.6902, Low: 0.4316, High: 0.8491},
		{Seconds: 16, AtRisk: 11, Reached: 1, Survival: 0.6275, Low: 0.3675, High: 0.8049},
		{Seconds: 22, AtRisk: 7, Reached: 1, Survival: 0.5378, Low: 0.2678, High: 0.7468},
		{Seconds: 23, AtRisk: 6, Reached: 1, Survival: 0.4482, Low: 0.1881, High: 0.6801},
	}
	// Greenwood's standard errors of the same table.
	greenwood := []float64{0.0764, 0.0869, 0.0963, 0.1068, 0.1141, 0.1282, 0.1346}
	curve := Fit(mercaptopurine)
	if len(curve) != len(want) {
		t.Fatalf("%d steps, want %d", len(curve), len(want))
	}
	for i, g := range curve {
		// The band is symmetrical on the scale of log(-log S), where it is z times the
		// error over S |log S| wide to either side.
		half := (math.Log(-math.Log(g.Low)) - math.Log(-math.Log(g.High))) / 2
		if got := half / 1.959964 * g.Survival * -math.Log(g.Survival); math.Abs(got-greenwood[i]) > 5e-5 {
			t.Errorf("step %d: Greenwood's error is %.4f, want %.4f", i, got, greenwood[i])
		}
	}
	for i, w := range want {
		g := curve[i]
		near := math.Abs(g.Survival-w.Survival) < 5e-5 && math.Abs(g.Low-w.Low) < 5e-5 && math.Abs(g.High-w.High) < 5e-5
		if g.Seconds != w.Seconds || g.AtRisk != w.AtRisk || g.Reached != w.Reached || !near {
			t.Errorf("step %d: got %+v, want %+v", i, g, w)
		}
	}
}

func TestQuantiles(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	cases := []struct {
		name string
		of   []Observation
		p    float64
		want Quantile
	}{
		// As published: 23 weeks, from 13 to no end.
		{"6-MP, median", mercaptopurine, 0.5, Quantile{f(23), f(13), nil}},
		{"6-MP, 90 %: too many still wait", mercaptopurine, 0.9, Quantile{nil, nil, nil}},
		{"6-MP, a quarter", mercaptopurine, 0.25, Quantile{f(13), f(6), f(22)}},
		// As published: 8 weeks, from 4 to 11.
		{"placebo, median", placebo, 0.5, Quantile{f(8), f(4), f(11)}},
		{"placebo, 90 %", placebo, 0.9, Quantile{f(17), f(12), nil}},
		{"nothing", nil, 0.5, Quantile{}},
		{"only waiting", []Observation{{5, Waiting, 9}}, 0.5, Quantile{}},
		{"all at once", []Observation{{5, Reached, 3}}, 0.99, Quantile{f(5), nil, nil}},
	}
	for _, c := range cases {
		got := Fit(c.of).Quantile(c.p)
		if !equal(got.Seconds, c.want.Seconds) || !equal(got.Low, c.want.Low) || !equal(got.High, c.want.High) {
			t.Errorf("%s: got %s, want %s", c.name, show(got), show(c.want))
		}
	}
}

func equal(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func show(q Quantile) string {
	text := ""
	for _, f := range []*float64{q.Seconds, q.Low, q.High} {
		if f == nil {
			text += " null"
		} else {
			text += " " + time.Duration(*f*float64(time.Second)).String()
		}
	}
	return text
}

func TestAbandonmentIsACompetingEvent(t *testing.T) {
	// Ten begin. 2 reach it at 1 s; 4 give up at 2 s; 2 of the 4 left reach it
	// at 3 s; one gives up at 4 s, and one still waits after 5 s.
	curve := Fit([]Observation{{1, Reached, 2}, {2, Abandoned, 4}, {3, Reached, 2}, {4, Abandoned, 1}, {5, Waiting, 1}})
	want := []Step{
		{Seconds: 1, AtRisk: 10, Reached: 2, Survival: 0.8, ShareReached: 0.2},
		{Seconds: 2, AtRisk: 8, Survival: 0.8, ShareReached: 0.2, ShareAbandoned: 0.4},
		{Seconds: 3, AtRisk: 4, Reached: 2, Survival: 0.4, ShareReached: 0.4, ShareAbandoned: 0.4},
		{Seconds: 4, AtRisk: 2, Survival: 0.4, ShareReached: 0.4, ShareAbandoned: 0.5},
	}
	if len(curve) != len(want) {
		t.Fatalf("%d steps, want %d", len(curve), len(want))
	}
	for i, w := range want {
		g := curve[i]
		for _, d := range []float64{g.Survival - w.Survival, g.ShareReached - w.ShareReached, g.ShareAbandoned - w.ShareAbandoned} {
			if math.Abs(d) > 1e-12 {
				t.Errorf("step %d: got %+v, want %+v", i, g, w)
			}
		}
	}
	reached, abandoned := curve.Shares()
	if math.Abs(reached-0.4) > 1e-12 || math.Abs(abandoned-0.5) > 1e-12 {
		t.Errorf("shares %v and %v, want 0.4 and 0.5: the other 0.1 still waits", reached, abandoned)
	}
}

// TestMediansOfSimulations: how long accounts need is known, and some 40 % of them
// are not watched for so long. The mean over those that were seen to reach it is
// visibly wrong, whatever the distribution; the median of the estimate is not, and its
// band holds the truth as often as it says.
func TestMediansOfSimulations(t *testing.T) {
	for _, c := range []struct {
		name         string
		median, mean float64 // the truth, in seconds
		needs, seen  func(*rand.Rand) float64
	}{
		{
			"exponential", 60, 60 / math.Ln2,
			func(r *rand.Rand) float64 { return r.ExpFloat64() * 60 / math.Ln2 },
			func(r *rand.Rand) float64 { return r.ExpFloat64() * 130 },
		},
		{
			"log-normal: some need very long", 60, 60 * math.Exp(1.5*1.5/2),
			func(r *rand.Rand) float64 { return 60 * math.Exp(1.5*r.NormFloat64()) },
			func(r *rand.Rand) float64 { return r.ExpFloat64() * 180 },
		},
		{
			"Pareto: a few need for ever", 60, 60 / math.Pow(2, 1/1.2) * 1.2 / 0.2,
			func(r *rand.Rand) float64 { return 60 / math.Pow(2, 1/1.2) * math.Pow(1-r.Float64(), -1/1.2) },
			func(r *rand.Rand) float64 { return 40 + r.ExpFloat64()*70 },
		},
	} {
		t.Run(c.name, func(t *testing.T) { simulate(t, c.median, c.mean, c.needs, c.seen) })
	}
}

func simulate(t *testing.T, trueMedian, trueMean float64, needs, seen func(*rand.Rand) float64) {
	const episodes, rounds = 400, 100
	covered, censored := 0, 0
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var reached sample
		var observations []Observation
		for range episodes {
			n, s := needs(rng), seen(rng)
			if n <= s {
				reached.add(time.Duration(n*float64(time.Second)), 1<<20)
				observations = append(observations, Observation{n, Reached, 1})
			} else {
				censored++
				observations = append(observations, Observation{s, Waiting, 1})
			}
		}
		median := Fit(observations).Quantile(0.5)
		if mean := *reached.mean(); mean > 0.75*trueMean {
			t.Errorf("seed %d: the plain mean is %.1f s of %.1f: the simulation does not show what it is for", seed, mean, trueMean)
		}
		if median.Seconds == nil || math.Abs(*median.Seconds-trueMedian) > 0.35*trueMedian {
			t.Errorf("seed %d: the median is %s, want about %v s", seed, show(median), trueMedian)
		}
		if median.Low != nil && *median.Low <= trueMedian && (median.High == nil || *median.High >= trueMedian) {
			covered++
		}
	}
	if share := float64(censored) / episodes / rounds; share < 0.35 || share > 0.45 {
		t.Errorf("%.0f %% are censored, want some 40", 100*share)
	}
	// A 95 % band holds the truth in 95 of 100 rounds; 87 would be an accident
	// of one in a thousand.
	if covered < 88 {
		t.Errorf("the band holds the true median in %d of %d rounds", covered, rounds)
	}
}
