package telemetry

import "github.com/prometheus/client_golang/prometheus"

// metric is one row of the table.
type metric struct {
	name   string
	kind   prometheus.ValueType // 0: a histogram
	help   string
	labels []string
	desc   *prometheus.Desc
}

// histogram is the kind of the rows that are one.
const histogram prometheus.ValueType = 0

func row(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	return &metric{name: name, kind: kind, help: help, labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// The metrics that are read from the server's parts at each scrape.
var (
	accounts    = row(gauge, "muster_accounts", "Accounts by machine, state and the state's class, now.", "machine", "state", "class")
	transitions = row(counter, "muster_transitions_total", "Changes of state by edge, over the whole history.", "from", "trigger", "to")
	rejected    = row(counter, "muster_rejected_total", "Rejected triggers by state and trigger, over the whole history. A rising rate says that a table is wrong.", "from", "trigger")
	outcomes    = row(counter, "muster_outcomes_total", "Judged triggers that were kept, by outcome, over the whole history.", "outcome")
	loggedOut   = row(counter, "muster_logged_out_total", "Transitions into LOGGED_OUT by reason code, over the whole history.", "reason")
	toRunning   = row(histogram, "muster_time_to_running_seconds", "How long accounts took to reach RUNNING, by kind (onboarding, recovery), over the whole history. Those that still wait are not in it: see muster_time_to_running_open.", "kind")
	waiting     = row(gauge, "muster_time_to_running_open", "Accounts that are on their way to RUNNING now, by kind.", "kind")
	needs       = row(gauge, "muster_attention", "What needs a human now, by kind.", "kind")

	viewApplied  = row(counter, "muster_view_records_total", "Records that the views have applied since the start.")
	viewLag      = row(gauge, "muster_view_lag_records", "Records that are stored and not yet in the views, of partitions that this process writes.", "partition")
	viewGaps     = row(counter, "muster_history_alarms_total", "Faults of the history that the views have met since the start: gaps in a stream or an account, unreadable records.", "kind")
	viewSaves    = row(counter, "muster_view_saves_total", "Times that the state of the views was saved, or was not, since the start.", "result")
	viewSaved    = row(gauge, "muster_view_checkpoint_age_seconds", "Age of the last saved state of the views that this process has made.")
	snapshotAge  = row(gauge, "muster_snapshot_age_seconds", "Age of the last snapshot of a partition that this process has written or read.", "partition")
	position     = row(gauge, "muster_log_position", "Sequence of the last record that this process has stored, by partition.", "partition")
	replayTook   = row(gauge, "muster_replay_seconds", "How long the history took to become state at the start.")
	ready        = row(gauge, "muster_ready", "1 once the history is replayed and triggers are taken, else 0.")
	deliveries   = row(counter, "muster_connector_deliveries_total", "What webhooks brought, by source and result, since the start.", "kind", "source", "result")
	connectorAge = row(gauge, "muster_connector_last_delivery_age_seconds", "Time since the last request of a source of webhooks; none before the first.", "kind", "source")
	inboxWaiting = row(gauge, "muster_inbox_waiting", "Messages of the inbox that are not settled.")
	inboxParked  = row(gauge, "muster_inbox_parked", "Messages of the inbox that could not be judged and wait for an operator.")
	inboxTaken   = row(counter, "muster_inbox_messages_total", "Messages of the inbox by what became of them, since the start.", "result")
	alertsSent   = row(counter, "muster_alerts_total", "Alerts by what became of them, since the start; failed ones are tried again, dead ones are not.", "result")
	feedEvents   = row(counter, "muster_feed_events_total", "Events of the live feed by what became of them, since the start.", "result")
	workers      = row(gauge, "muster_workers", "Workers by state.", "state")
	tokens       = row(gauge, "muster_tokens", "Access tokens by status.", "status")
	diskFree     = row(gauge, "muster_disk_free_bytes", "Bytes that may still be written on the disk of the data directory; embedded server only.")
	syncMode     = row(gauge, "muster_sync_mode", "1 for the mode in which acknowledged events are brought to disk: group, always, interval, or external.", "mode")
	build        = row(gauge, "muster_build_info", "1, with the version of the build.", "version", "revision", "go")
	capped       = row(gauge, "muster_metrics_capped", "Values of labels that have no series of their own any more and are summed up as \"other\", by metric.", "metric")
)

// collected are all of them, in the order of the page.
var collected = []*metric{
	accounts, transitions, rejected, outcomes, loggedOut, toRunning, waiting, needs,
	viewApplied, viewLag, viewGaps, viewSaves, viewSaved, snapshotAge, position, replayTook, ready,
	deliveries, connectorAge, inboxWaiting, inboxParked, inboxTaken, alertsSent, feedEvents, workers, tokens, diskFree, syncMode, build, capped,
}

// The histograms that are observed where it happens.
var (
	groupSize     = prometheus.HistogramOpts{Name: "muster_group_records", Help: "Records that were stored as one group.", Buckets: prometheus.ExponentialBuckets(1, 2, 11)}
	appendSeconds = prometheus.HistogramOpts{Name: "muster_append_seconds", Help: "Time of a group from the log's being given it until it is durable, by result: stored, conflict, refused, unknown, failed.", Buckets: fine}
	answerSeconds = prometheus.HistogramOpts{Name: "muster_answer_seconds", Help: "Time of a trigger from its being taken until its answer, by outcome.", Buckets: fine}
	fsyncSeconds  = prometheus.HistogramOpts{Name: "muster_fsync_seconds", Help: "Time of one pass of the barrier that brings a group to disk; sync mode group only.", Buckets: fine}
)

// fine are the buckets of what takes from a tenth of a millisecond to some seconds.
var fine = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// runningBounds are the buckets of the time to RUNNING, in seconds.
var runningBounds = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400}
