// Package gewechat reads the callbacks of gewechat servers.
//
// An account is a Wxid; the Appid is its device and is not kept. The sender tells
// messages and, without reason, time or id, that an account is offline. That it is
// back is known by the messages that come then (package wechat). Messages are
// pushed again after restarts and by history syncs, and are known by their ids.
//
// Nothing is kept between two requests. A payload that is not understood is
// unmapped, never an error.
package gewechat
