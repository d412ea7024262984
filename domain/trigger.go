package domain

// AccountID names one messaging account under management: any UTF-8 text of 1
// to 128 bytes without control characters (`+15550100001`, `wxid_ab`). Use
// [ParseAccountID] to make one from input.
type AccountID string

// Initiator says who caused a trigger.
type Initiator string

// The initiators. Only a user's start and stop change what is desired.
const (
	ByUnknown Initiator = "unknown"
	ByUser    Initiator = "user"
	ByUs      Initiator = "us"
	ByRemote  Initiator = "remote"
)

// SourceMuster is the source of Muster's own triggers (deadlines, marks).
// Publishers may not use it.
const SourceMuster = "muster"

// Reason is why something happened, kept raw as the source gave it.
type Reason struct {
	Code string
	Text string
}

// Data is a trigger's payload: JSON values as string, bool, nil, int64,
// float64, []any and map[string]any. Times in it are RFC 3339 text.
type Data map[string]any

// NoExpect is the Expect of a trigger that names no expected version.
const NoExpect = -1

// Trigger is what a publisher says happened, or asks for. Decoders
// ([ParseTrigger] for JSON, codec for msgpack) fill it; the judge checks it.
type Trigger struct {
	ID      string    // publisher's id; "" = none. The last 64 per account detect duplicates
	Account AccountID //
	Name    string    // e.g. qr_received
	Key     string    // message id or contact id; ignored on session triggers
	At      int64     // when it was observed, unix nanoseconds; see HasAt
	HasAt   bool      // false: At was not given and is to be taken as now
	Source  string    // who publishes: a connector's or worker's id
	Epoch   int64     // which connection of the account; 0 = unknown
	Seq     int64     // which message of that connection; 0 = unknown
	By      Initiator // "" counts as ByUnknown
	Reason  Reason    //
	Data    Data      //
	Expect  int64     // expected account version, or NoExpect

	// These register the account and count on its first trigger only.
	Machine string // e.g. "whatsapp@2"; "" = the default
	Mode    string // ModeObserve or ModeSupervise; "" = observe
	Labels  map[string]string

	// Tracing, carried into the record and never judged.
	Correlation string
	Causation   string
	Traceparent string

	// Recorded is when the trigger was recorded, unix ns: in lines of an exported
	// history, which are judged at that time. 0 in all other triggers.
	Recorded int64

	// NotWorker marks a recover for an account whose source is no worker
	// (data.worker false in a trace line): it sets unverified and moves nothing.
	NotWorker bool
}

// The modes of an account: observe only watches, supervise also retries.
const (
	ModeObserve   = "observe"
	ModeSupervise = "supervise"
)

// What an operator wants of an account.
const (
	DesiredRun  = "run"
	DesiredStop = "stop"
)
