// Package machine says what a machine is: a named, versioned transition table
// as data, its check and its compiled form.
package machine

// Registry holds compiled machines by name.
type Registry struct{}
