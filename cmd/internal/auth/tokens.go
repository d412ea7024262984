package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/musterhq/muster/bus"
)

// ErrNoToken: there is no such token.
var ErrNoToken = errors.New("there is no such token")

// ErrFirst: the first token of an open server must be an admin's, or nobody could
// make another one.
var ErrFirst = errors.New("the first token must be an admin's: with it the server asks everybody for one")

// Config is how a Tokens behaves; the zero value asks nobody for anything.
type Config struct {
	User     string // who gives Password
	Password string // of an admin; "" = none
	// Closed asks for credentials even when there are none to give: a listener
	// can be reached from other machines.
	Closed bool
	Logger *slog.Logger     // default: discarded
	Now    func() time.Time // default: time.Now
	// Changed is called when a token was made or ended, from a goroutine of the
	// bucket; it may be nil.
	Changed func()
}

// Tokens knows who may come in. Make one with New, before anything listens; it
// decides once Load has read the tokens. It may be used from many goroutines.
type Tokens struct {
	cfg    Config
	loaded chan struct{} // closed when the tokens are known
	ended  chan struct{} // closed by Close

	mu         sync.RWMutex
	tokens     map[string]*Token
	partitions int                   // of the log
	rates      map[string]sourceRate // by source; nil = not counted since the last change

	bucket *bucket
	end    sync.Once
}

// New returns a Tokens that knows none yet.
func New(cfg Config) *Tokens {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return &Tokens{cfg: cfg, loaded: make(chan struct{}), ended: make(chan struct{}), tokens: map[string]*Token{}}
}

// Close ends it: nobody is let in any more. The bucket is followed no longer.
func (t *Tokens) Close() {
	t.end.Do(func() { close(t.ended) })
	if t.bucket != nil {
		t.bucket.close()
	}
}

// ready says whether the tokens are known by now.
func (t *Tokens) ready() bool {
	select {
	case <-t.loaded:
		return true
	default:
		return false
	}
}

// Required says whether credentials are asked for.
func (t *Tokens) Required() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.required()
}

func (t *Tokens) required() bool {
	return t.cfg.Closed || t.cfg.Password != "" || len(t.tokens) > 0
}

// Check is nil when somebody can come in: there is a password, a live token, or
// no need of one. Else it wraps bus.ErrCredentialsRequired.
func (t *Tokens) Check() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.required() || t.cfg.Password != "" || t.live() {
		return nil
	}
	return fmt.Errorf("%w: an address can be reached from other machines, or tokens were used before, and there is neither a password nor a live token; "+
		"set a password (MUSTER_PASSWORD or --password-file), or make a token first (muster token create --role admin --data DIR)", bus.ErrCredentialsRequired)
}

// live says whether there is a live token.
func (t *Tokens) live() bool {
	now := t.cfg.Now()
	for _, k := range t.tokens {
		if k.Live(now) {
			return true
		}
	}
	return false
}

// List returns all tokens, those that have ended included, the oldest first.
func (t *Tokens) List() []Token {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Token, 0, len(t.tokens))
	for _, k := range t.tokens {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return out
}

// password says whether a name and a password are the configured ones.
func (t *Tokens) password(user, password string) bool {
	right := subtle.ConstantTimeCompare([]byte(user), []byte(t.cfg.User)) & subtle.ConstantTimeCompare([]byte(password), []byte(t.cfg.Password))
	return right == 1 && t.cfg.Password != ""
}

// nobody is compared with when there is no such token, so that the answer takes
// as long as for one that there is.
var nobody = Token{Hash: HashOf("")}

// find returns the live token of an id and its secret.
func (t *Tokens) find(id, secret string) (Token, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k, known := t.tokens[id]
	if !known {
		k = &nobody
	}
	ok := k.matches(secret)
	return *k, ok && known && k.Live(t.cfg.Now())
}

// anonymous is who comes into an open server without saying who it is. No token has
// this id.
const anonymous = "anonymous"

// authenticateWithin is how long a client waits until the tokens are known.
const authenticateWithin = 10 * time.Second

// Authenticate lets a client into the embedded NATS server: with the name and the
// password of the configuration, with a token's id and secret as name and
// password, or with the whole token. It waits until the tokens are known.
func (t *Tokens) Authenticate(l bus.Login) (bus.Grant, bool) {
	bound := time.NewTimer(authenticateWithin)
	defer bound.Stop()
	select {
	case <-t.loaded:
	case <-t.ended:
		return bus.Grant{}, false
	case <-bound.C:
		return bus.Grant{}, false
	}
	if id, secret, ok := Split(l.Token); ok {
		l.User, l.Password = id, secret
	}
	if t.password(l.User, l.Password) {
		return bus.Grant{Name: t.cfg.User}, true
	}
	if k, ok := t.find(l.User, l.Password); ok {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return k.grant(t.partitions), true
	}
	return bus.Grant{Name: anonymous}, !t.Required()
}

// Keeps says whether the NATS connection of a Grant of this name may stay.
func (t *Tokens) Keeps(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if name == t.cfg.User && t.cfg.Password != "" {
		return true
	}
	if k := t.tokens[name]; k != nil {
		return k.Live(t.cfg.Now())
	}
	return !t.required()
}

// Create keeps a token. The error wraps ErrInvalid or ErrFirst when it cannot be.
func (t *Tokens) Create(ctx context.Context, k Token) (Token, error) {
	now := t.cfg.Now().UTC()
	k.Created, k.Revoked = now, time.Time{}
	if err := k.check(now); err != nil {
		return k, err
	}
	t.mu.RLock()
	first := !t.live() && t.cfg.Password == ""
	t.mu.RUnlock()
	if first && (k.Role != Admin || !k.Expires.IsZero()) {
		return k, fmt.Errorf("%w, and one that does not expire (--role admin)", ErrFirst)
	}
	if err := t.bucket.create(ctx, &k); err != nil {
		return k, err
	}
	t.put(&k)
	return k, nil
}

// Revoke ends a token. One that has been revoked stays as it is. The error wraps
// ErrNoToken when there is none.
func (t *Tokens) Revoke(ctx context.Context, id string) (Token, error) {
	t.mu.RLock()
	known := t.tokens[id]
	t.mu.RUnlock()
	if known == nil {
		return Token{}, fmt.Errorf("%w: %q", ErrNoToken, id)
	}
	k := *known
	if !k.Revoked.IsZero() {
		return k, nil
	}
	k.Revoked = t.cfg.Now().UTC()
	if err := t.bucket.update(ctx, &k); err != nil {
		return k, err
	}
	t.put(&k)
	return k, nil
}

// put takes a token into memory and tells who wants to know. What is revoked
// stays so: the bucket may still be giving what was before.
func (t *Tokens) put(k *Token) {
	t.mu.Lock()
	if old := t.tokens[k.ID]; old == nil || old.Revoked.IsZero() {
		t.tokens[k.ID] = k
	}
	t.rates = nil
	t.mu.Unlock()
	if t.ready() {
		t.cfg.Changed()
	}
}
