package telemetry

import _ "embed"

// Rules are the alert rules, as a rule file of Prometheus.
//
//go:embed rules.yaml
var Rules []byte

// Dashboard is the dashboard, as Grafana imports it.
//
//go:embed dashboard.json
var Dashboard []byte
