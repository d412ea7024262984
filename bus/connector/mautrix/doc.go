// Package mautrix reads the bridge states that mautrix bridges push.
//
// An account is a remote_id, one login of the bridge. The bridge pushes one state
// after the other, in whole seconds and without an id: a delivery is named by its
// content, and only a repeat of an account's newest one is a duplicate, for down,
// up and down again may happen within a second. The state's ttl is judged by
// nobody: the bridge does not push again by itself, so its end breaks no promise.
//
// Nothing is kept between two requests. A state that is not known is unmapped,
// never an error.
package mautrix
