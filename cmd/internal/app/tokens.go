package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
)

// What operators do with tokens, as the operators' log has it.
const (
	tokenCreated operator.Name = "token_create"
	tokenRevoked operator.Name = "token_revoke"
)

// tokenQueries is the table of what can be done with tokens.
func (a *App) tokenQueries() []query.Query {
	return []query.Query{
		{Name: api.TokenCreateQuery, Description: "Keep a token, by the hash of its secret", Handle: query.Of(a.createToken)},
		{Name: api.TokensQuery, Description: "All tokens, the oldest first", Handle: query.Of(a.listTokens)},
		{Name: api.TokenRevokeQuery, Description: "End a token and its connections", Handle: query.Of(a.revokeToken)},
	}
}

func (a *App) createToken(ctx context.Context, r api.TokenCreateRequest) (any, error) {
	k := auth.Token{ID: r.ID, Hash: r.Hash, Role: auth.Role(r.Role), Sources: r.Sources, Name: r.Name, Rate: r.Rate, By: doneBy(ctx, r.By)}
	if r.Expires != "" {
		at, err := time.Parse(time.RFC3339Nano, r.Expires)
		if err != nil {
			return nil, invalid("expires is %q; write it like 2026-01-01T10:00:00Z", r.Expires)
		}
		k.Expires = at
	}
	k, err := a.door.tokens.Create(ctx, k)
	if err != nil {
		return nil, tokenError(err)
	}
	return tokenOf(&k), a.audit(ctx, operator.Action{By: k.By, Action: tokenCreated, Target: map[string]string{"token": k.ID, "role": string(k.Role)}})
}

func (a *App) revokeToken(ctx context.Context, r api.TokenRevokeRequest) (any, error) {
	if r.By = doneBy(ctx, r.By); r.By == "" {
		return nil, invalid("by is empty; say who does it")
	}
	k, err := a.door.tokens.Revoke(ctx, r.ID)
	if err != nil {
		return nil, tokenError(err)
	}
	return tokenOf(&k), a.audit(ctx, operator.Action{By: r.By, Action: tokenRevoked, Reason: r.Reason, Target: map[string]string{"token": k.ID}})
}

func (a *App) listTokens(context.Context, api.TokensRequest) (any, error) {
	out := api.Tokens{Tokens: []api.Token{}}
	for _, k := range a.door.tokens.List() {
		out.Tokens = append(out.Tokens, tokenOf(&k))
	}
	return out, nil
}

// audit keeps what an operator did beside what it is about.
func (a *App) audit(ctx context.Context, action operator.Action) error {
	_, _, err := a.alerts.actions.Append(ctx, action)
	return err
}

func tokenError(err error) error {
	switch {
	case errors.Is(err, auth.ErrInvalid):
		return invalid("%v", err)
	case errors.Is(err, auth.ErrFirst):
		return &bus.Error{Code: http.StatusConflict, Title: "conflict", Detail: err.Error()}
	case errors.Is(err, auth.ErrNoToken):
		return notFound("%v", err)
	}
	return err
}

func tokenOf(k *auth.Token) api.Token {
	return auth.View(k, time.Now())
}
