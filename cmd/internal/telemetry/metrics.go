package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are a server's metrics, on a registry of their own.
type Metrics struct {
	Writers *Writers // to be given to the writers
	reg     *prometheus.Registry
}

// New returns the metrics of a server whose parts are these. Numbers of the Go
// runtime and of the process are among them.
func New(src Sources) *Metrics {
	reg := prometheus.NewRegistry()
	w := newWriters(reg)
	reg.MustRegister(
		newCollector(src, w, time.Now),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return &Metrics{Writers: w, reg: reg}
}

// scrapes is how many scrapes are answered at once; more are told to come again.
const scrapes = 4

// scrapeWithin bounds one scrape.
const scrapeWithin = 20 * time.Second

// Handler is the page /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapes, Timeout: scrapeWithin, ErrorHandling: promhttp.ContinueOnError,
	})
}
