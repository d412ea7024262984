package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// Role is what a token may do; as the need of a route, who may use it.
type Role string

// The roles. Operator includes Reader, Admin includes all; a Connector says what
// happened to the accounts of its sources and asks what it must know for that.
const (
	Connector Role = "connector"
	Reader    Role = "reader"
	Operator  Role = "operator"
	Admin     Role = "admin"

	// Any is no role of a token: it is the need of a route that every role may use.
	Any Role = "any"
)

// Roles are the roles that a token can have.
var Roles = []Role{Connector, Reader, Operator, Admin}

// serves says for each need which roles meet it. A need that is not in it is met
// by an Admin only.
var serves = map[Role][]Role{
	Any:       {Connector, Reader, Operator, Admin},
	Connector: {Connector, Operator, Admin},
	Reader:    {Reader, Operator, Admin},
	Operator:  {Operator, Admin},
	Admin:     {Admin},
}

// ParseRole reads a role of a token.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(Roles, r) {
		return r, nil
	}
	names := make([]string, len(Roles))
	for i, r := range Roles {
		names[i] = string(r)
	}
	return "", fmt.Errorf("role %q: it is %s", s, strings.Join(names, ", "))
}

// Meets says whether somebody of this role may use what needs another.
func (r Role) Meets(need Role) bool {
	roles, known := serves[need]
	if !known {
		roles = serves[Admin]
	}
	return slices.Contains(roles, r)
}

// Identity is who makes a request.
type Identity struct {
	Token   string // id of the token; "" = none was needed, or the password was given
	Name    string // for the log of operators' actions; never empty
	Role    Role
	Sources []string // that a Connector speaks for
	Rate    int      // requests per second; 0 = the server's default
}

// MayTrigger is nil when the identity may publish the trigger, else a [*bus.Error]
// of bus.ErrNotAllowed.
func (i *Identity) MayTrigger(t *domain.Trigger) error {
	switch {
	case i.Role == Connector:
		return bus.ConnectorMay(t, i.Sources...)
	case i.Role.Meets(Connector):
		return nil
	default:
		return refusal(i.Role, Connector)
	}
}

// refusal is the error for a role that does not meet a need.
func refusal(role, need Role) error {
	return &bus.Error{
		Code: http.StatusForbidden, Title: "not allowed",
		Detail: fmt.Sprintf("this needs the role %s; the token's is %s", need, role),
	}
}

type identityKey struct{}

// With returns a context that carries an identity.
func With(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// From is the identity that a request's context carries; nil = none.
func From(ctx context.Context) *Identity {
	i, _ := ctx.Value(identityKey{}).(*Identity)
	return i
}

// Allow is nil when the identity of a request meets a need, else a [*bus.Error] of
// bus.ErrNotAllowed: code 401 without an identity, 403 with one of another role.
func Allow(ctx context.Context, need Role) error {
	i := From(ctx)
	switch {
	case i == nil:
		return unauthorized("give a token: Authorization: Bearer mst_…")
	case !i.Role.Meets(need):
		return refusal(i.Role, need)
	}
	return nil
}

func unauthorized(detail string) *bus.Error {
	return &bus.Error{Code: http.StatusUnauthorized, Title: "not authenticated", Detail: detail}
}
