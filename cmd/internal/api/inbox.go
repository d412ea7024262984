package api

// The names of the queries about the inbox.
const (
	InboxQuery      = "inbox.list"  // InboxRequest → Inbox
	InboxRetryQuery = "inbox.retry" // SettleRequest → Settled
	InboxDropQuery  = "inbox.drop"  // SettleRequest → Settled
)

// InboxRequest asks for one page of parked messages, the last one first.
type InboxRequest struct {
	Before string `json:"before,omitempty"` // Next of the page before
	Limit  int    `json:"limit,omitempty"`  // 0 = DefaultLimit; above MaxLimit is invalid
}

// Inbox is what waits in the inbox, in numbers, and one page of what could not
// be judged.
type Inbox struct {
	Waiting uint64          `json:"waiting"` // messages that are not judged yet
	Total   uint64          `json:"total"`   // parked in all
	Parked  []ParkedMessage `json:"parked"`
	Next    string          `json:"next,omitempty"` // Before of the next page; absent on the last one
}

// ParkedMessage is a message of the inbox that could not be judged, as it was
// published.
type ParkedMessage struct {
	ID        string              `json:"id"`
	Account   string              `json:"account"` // "" when its subject names none
	Subject   string              `json:"subject"`
	Reason    string              `json:"reason"`
	Published string              `json:"published"` // when it was first published
	ParkedAt  string              `json:"parked_at"`
	Headers   map[string][]string `json:"headers"`
	Size      int                 `json:"size"`            // of the body, in bytes
	Body      string              `json:"body"`            // when it is text
	Bytes     []byte              `json:"bytes,omitempty"` // the body when it is no text, in base64
}

// SettleRequest names one parked message, or all.
type SettleRequest struct {
	ID   string `json:"id,omitempty"`
	All  bool   `json:"all,omitempty"`
	UpTo string `json:"up_to,omitempty"` // of the answer before, to go on with all
}

// Settled says how many parked messages were retried or dropped.
type Settled struct {
	Done int    `json:"done"`
	UpTo string `json:"up_to,omitempty"` // ask once more with it: there are more than one request takes
}

// Published is what became of a trigger that was put into the inbox.
type Published struct {
	Account string `json:"account"`
	Trigger string `json:"trigger"`
	Seq     uint64 `json:"inbox_seq"` // its place in the inbox
}
