package api

// The queries about tokens; all of them need the role admin.
const (
	TokenCreateQuery = "tokens.create" // TokenCreateRequest → Token
	TokensQuery      = "tokens.list"   // TokensRequest → Tokens
	TokenRevokeQuery = "tokens.revoke" // TokenRevokeRequest → Token
)

// TokenCreateRequest has a token kept. Its secret stays with who made it: only
// its SHA-256 is sent.
type TokenCreateRequest struct {
	ID      string   `json:"id"`
	Hash    string   `json:"hash"` // of the secret, hexadecimal
	Role    string   `json:"role"`
	Sources []string `json:"sources,omitempty"` // of a connector
	Name    string   `json:"name,omitempty"`
	Rate    int      `json:"rate,omitempty"`    // requests per second over HTTP; 0 = the server's default
	Expires string   `json:"expires,omitempty"` // RFC 3339; empty = never
	By      string   `json:"by"`
}

// TokensRequest asks for all tokens, the oldest first.
type TokensRequest struct{}

// Tokens is the answer to a TokensRequest.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// TokenRevokeRequest ends a token, and the connections that were made with it.
type TokenRevokeRequest struct {
	ID     string `json:"id"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// Token is what is known of a token.
type Token struct {
	ID      string   `json:"id"`
	Role    string   `json:"role"`
	Sources []string `json:"sources,omitempty"`
	Name    string   `json:"name"`
	Rate    int      `json:"rate,omitempty"`
	Created string   `json:"created"`
	By      string   `json:"by"`
	Expires string   `json:"expires,omitempty"`
	Revoked string   `json:"revoked,omitempty"`
	Status  string   `json:"status"`          // live, expired or revoked
	Token   string   `json:"token,omitempty"` // whole, with the secret; only in what token create prints
}
