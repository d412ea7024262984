package connector

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/musterhq/muster/domain"
)

// Connector is the knowledge of one peer: how its requests prove where they
// come from, how a body falls apart into facts, and which triggers a fact
// becomes. A Connector keeps nothing between two requests; what it must
// remember goes into a [Memory].
type Connector interface {
	// Kind is the connector's name and the first segment of its path.
	Kind() string
	// Methods lists the HTTP methods that it serves; all others get 405.
	Methods() []string
	// Authentic says whether the request comes from who knows the source's
	// secret. Any error becomes 401; its text is for the log and must quote
	// nothing of the request.
	Authentic(s *Source, r *Request) error
	// Read takes the body of an authentic request apart. An error means that
	// the body cannot be read: 400, with the error's text as the detail, and
	// nothing of the request is kept. A [MemoryError] becomes 503.
	Read(ctx context.Context, s *Source, mem Memory, r *Request) ([]Delivery, error)
}

// Shaker is a Connector that answers some requests before anything is read or
// authenticated: a subscription's proof, a preflight.
type Shaker interface {
	// Shake returns the answer, and false when the request is an ordinary one.
	Shake(s *Source, r *Request) (Answer, bool)
}

// Tailer is a Connector whose peer may append a segment to its address, such as
// the name of the event. Such a segment is no source.
type Tailer interface {
	Tail(segment string) bool
}

// Answer is the answer of a [Shaker].
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Source is one configured sender.
type Source struct {
	Kind string
	Name string // also the source of its events and the prefix of its accounts

	// Secrets are the keys that are good now: one, or two while one replaces
	// the other. Never empty.
	Secrets []string

	Auth        string              // how the peer proves itself, where it has more than one way
	UTCOffset   time.Duration       // of the local time that the peer writes as if it were UTC
	VerifyToken string              // of a subscription's proof
	WABANumbers map[string][]string // business account → digits of its numbers

	Poll *Poll // nil: nobody asks it
}

// Poll is where the list of a source's sessions can be asked for.
type Poll struct {
	URL   string
	Key   string
	Every time.Duration
}

// Account is the account id of a native id of this source.
func (s *Source) Account(native string) domain.AccountID {
	return domain.AccountID(s.Name + ":" + native)
}

// Request is what came in, whole.
type Request struct {
	Method string
	Header http.Header
	Query  url.Values
	Body   []byte
	At     int64 // of the arrival, unix ns
}

// Delivery is the smallest unit that a body holds: one event, one status, one
// message. It is a fact (Map is set), known and without interest (Ignored), or
// not known (Unmapped).
type Delivery struct {
	// Accounts are whom the fact is about: usually one. Several get it one by
	// one. Of, when it is set, stands for all accounts of the source that it
	// says yes to.
	Accounts []domain.AccountID
	Of       func(*domain.Account) bool

	// ID names the delivery; the first trigger gets it, further ones "#2", "#3"
	// behind it. An account that has seen it gets nothing. "": the peer gives
	// nothing to make one of, and a repeat is judged again.
	ID string
	// Newest says that only a repeat of the account's newest delivery is a
	// duplicate; another one with the same ID gets "~2", "~3" … behind it.
	Newest bool

	// Map returns the triggers of the fact for an account as it is now; nil
	// stands for an account without events. No triggers: the fact is ignored.
	// Account is filled in by the caller; ID, Source and At where they are empty
	// (At: with the arrival). It may be called more than once.
	Map func(a *domain.Account) []domain.Trigger
	// Verbatim says that the triggers are the sender's own words and do not
	// depend on the account: their Expect is kept as it is (NoExpect where the
	// sender gives none). Without it Expect is the caller's, who makes sure that
	// nothing is judged that was mapped on an older account.
	Verbatim bool

	Ignored  bool
	Unmapped string // what is not known, in a few words: `event "foo.bar"`
	// Sample is what may be kept of an unmapped unit, stripped of everything
	// but names, ids, times, codes and states.
	Sample map[string]any
}

// Ignore is a delivery that is known and yields nothing.
func Ignore() Delivery { return Delivery{Ignored: true} }

// Memory keeps what a connector learns from one request and needs in a later
// one. It outlives a restart.
type Memory interface {
	// Get returns what was put under the source's key.
	Get(ctx context.Context, source, key string) (value string, ok bool, err error)
	// PutNew keeps the value unless one is there, and returns the one that is
	// there then.
	PutNew(ctx context.Context, source, key, value string) (string, error)
	// Keys lists the source's keys with this prefix, sorted.
	Keys(ctx context.Context, source, prefix string) ([]string, error)
}

// MemoryError says that the memory could not be asked.
type MemoryError struct{ Err error }

// Error names what failed.
func (e *MemoryError) Error() string { return "remember: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MemoryError) Unwrap() error { return e.Err }
