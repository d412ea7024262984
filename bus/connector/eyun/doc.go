// Package eyun reads the callbacks of Eyun.
//
// An account is a wcId; a wId is one login of it, and changes with every login.
// The epoch of a login is the arrival of the first callback that named it, which
// is kept in the memory: so the late offline notice of an earlier login is stale.
// That an account is back is known by its messages (package wechat). The
// operator's own customer number (`account`) is not kept.
//
// Without the memory a callback with a wId cannot be read and is asked for again.
// A payload that is not understood is unmapped, never an error.
package eyun
