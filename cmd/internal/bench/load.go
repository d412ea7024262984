package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Figure is what a load of callers came to.
type Figure struct {
	Callers int     `json:"callers"`
	Rate    float64 `json:"rate"` // per second
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

// connections is the number of connections that the callers of a load share.
const connections = 4

// drive lets callers goroutines call one after the other for the time, after a
// short warm-up, and measures each call.
func drive(ctx context.Context, callers int, during time.Duration, call func(ctx context.Context, caller, n int) error) (Figure, error) {
	warm := min(during/4, 500*time.Millisecond)
	from := time.Now().Add(warm)
	until := from.Add(during)
	took := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := 0; ; n++ {
				begin := time.Now()
				if !begin.Before(until) && len(took[c]) > 0 || ctx.Err() != nil {
					return
				}
				if errs[c] = call(ctx, c, n); errs[c] != nil {
					return
				}
				if end := time.Now(); begin.After(from) && (end.Before(until) || len(took[c]) == 0) {
					took[c] = append(took[c], end.Sub(begin))
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return Figure{}, context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return Figure{}, err
		}
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return Figure{
		Callers: callers, Rate: float64(len(all)) / during.Seconds(),
		P50: quantile(all, 0.50), P99: quantile(all, 0.99),
	}, nil
}

// quantile of sorted times, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
}

// median of figures.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// dial opens the connections of a load.
func dial(url string) ([]*nats.Conn, func(), error) {
	var conns []*nats.Conn
	closeAll := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range connections {
		c, err := nats.Connect(url)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("connect a caller: %w", err)
		}
		conns = append(conns, c)
	}
	return conns, closeAll, nil
}
