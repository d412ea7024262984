// Package telemetry tells Prometheus and OpenTelemetry how a server and its fleet
// fare.
//
// It owns the metrics (the table in table.go is their contract: names, types,
// labels, meanings), the page on which they are read (Metrics), the alert rules
// and the dashboard that are made for them (Rules, Dashboard), and the spans of a
// trigger's way through the server (Tracer). It owns no number about the fleet:
// those are read from the views at each scrape, so that nothing is counted on the
// path of a trigger but three histograms of the writers.
//
// No metric has a label for an account. Labels whose values users choose (sources,
// triggers and states of their own machines) are bounded: what goes beyond is
// summed up as "other", and once a value has a series of its own it keeps it. So
// the number of series does not depend on the size of the fleet.
//
// When it fails: a part that does not run yet, or not in this process, has no
// series, and the others are there. Spans that cannot be sent are dropped by the
// exporter, which says so in the log; nothing waits for them. Tracing is off unless
// the standard environment variables of OpenTelemetry ask for it.
package telemetry
