// Package auth decides who may do what: over HTTP, and on the embedded NATS
// server.
//
// It owns the roles and what each may do (role.go, subjects.go), the tokens
// (token.go), where they are kept (Tokens), the check of every HTTP request
// (Guard) and the certificate of the listeners (Keypair). Authoritative is the
// bucket MUSTER_TOKENS of the NATS server; every process holds all of it in
// memory and follows it. A token's secret is kept nowhere: the bucket has its
// SHA-256, and who makes a token sends nothing else.
//
// Without a password and without any token a server that listens on loopback is
// open: whoever can reach it is an admin. With the first token that ends, for
// both listeners, and the end of the last token does not bring it back.
//
// When it fails: until the tokens have been read, NATS clients wait and HTTP
// requests are told to come again; nobody is let in on a guess. A connection to
// the bucket that is lost leaves what was known last in force, so a revocation
// made by another process comes into force when the connection is back. A token
// record that cannot be read counts as revoked and is logged. A certificate that
// cannot be read anew leaves the one before in use and is logged.
//
// NATS tells a service nothing about who has sent a message. What somebody says on
// the bus is therefore proved by the subject, which names a token or a source
// (bus.Speaker, bus.NamedQuery), and connectors and operators may publish nowhere
// else; OnBus looks up whose name it is. Only an admin may publish where no name
// stands, or in another's name. On a NATS server that is not Muster's own the names
// are as good as that server's permissions.
package auth
