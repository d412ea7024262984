package auth

import (
	"context"
	"net/http"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// The keys of limits over the bus. A token has one over HTTP and one over the bus.
const (
	busTokenKey  = "bus "
	busSourceKey = "source "
)

// OnBus is whose name stands in a subject of the bus: that of a live token, since
// the server lets nobody else publish there. The error is a [*bus.Error]: 401 for
// a name that nobody has, 429 for one in which too much comes, 503 until the
// tokens are known.
func (g *Guard) OnBus(name string) (*Identity, error) {
	if !g.tokens.ready() {
		return nil, &bus.Error{Code: http.StatusServiceUnavailable, Title: "not ready", Detail: "the server is starting", Retryable: true}
	}
	i := g.tokens.named(name)
	switch {
	case i != nil:
	case g.cfg.Foreign || !g.tokens.Required():
		i = &Identity{Token: name, Name: name, Role: Admin}
	default:
		return nil, unauthorized("the token in whose name this comes is not known, has expired, or was revoked")
	}
	most := i.Rate
	if most == 0 {
		most = g.cfg.BusRate
	}
	if err := g.take(busTokenKey+name, most); err != nil {
		return nil, err
	}
	return i, nil
}

// MayAsk returns a context with the identity of who asks a query on the bus in a
// name, or the [*bus.Error] that says why it is not answered.
func (g *Guard) MayAsk(ctx context.Context, name, query string) (context.Context, error) {
	i, err := g.OnBus(name)
	if err != nil {
		return nil, err
	}
	need, _ := QueryNeeds(query)
	ctx = With(ctx, i)
	return ctx, Allow(ctx, need)
}

// MayTell is nil when a trigger may be judged that came on the bus from a speaker,
// and returns who it is: nil for a source, of which several tokens may speak.
func (g *Guard) MayTell(s bus.Speaker, t *domain.Trigger) (*Identity, error) {
	if s.Token == "" {
		if err := g.take(busSourceKey+s.Source, g.tokens.rateOf(s.Source, g.cfg.BusRate)); err != nil {
			return nil, err
		}
		return nil, bus.ConnectorMay(t, s.Source)
	}
	i, err := g.OnBus(s.Token)
	if err != nil {
		return nil, err
	}
	return i, i.MayTrigger(t)
}

// named is the identity of the live token with this id, or of the configured user;
// nil = there is neither.
func (t *Tokens) named(name string) *Identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.cfg.Password != "" && name == t.cfg.User {
		return &Identity{Name: name, Role: Admin}
	}
	if k := t.tokens[name]; k != nil && k.Live(t.cfg.Now()) {
		return k.identity()
	}
	return nil
}

// sourceRate is what the tokens of a source may send together: as much as the one
// that may send most.
type sourceRate struct {
	own   int  // the highest rate that one has of its own; 0 = none has
	plain bool // one has the server's
}

// rateOf is the rate of a source; 0 = no bound.
func (t *Tokens) rateOf(source string, server int) int {
	t.mu.RLock()
	rates := t.rates
	t.mu.RUnlock()
	if rates == nil {
		rates = t.countRates()
	}
	r := rates[source]
	switch {
	case r.own == 0 || r.plain && server == 0:
		return server
	case r.plain:
		return max(r.own, server)
	}
	return r.own
}

// countRates makes the table of rateOf, which holds until a token is made or ended.
func (t *Tokens) countRates() map[string]sourceRate {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rates = map[string]sourceRate{}
	for _, k := range t.tokens {
		if !k.Live(t.cfg.Now()) {
			continue
		}
		for _, s := range k.Sources {
			r := t.rates[s]
			t.rates[s] = sourceRate{own: max(r.own, k.Rate), plain: r.plain || k.Rate == 0}
		}
	}
	return t.rates
}
