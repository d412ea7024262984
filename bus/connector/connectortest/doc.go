// Package connectortest tests connectors: [Play] plays recorded sequences and
// compares what came of them with what they state, exactly; [Conform] gives a
// connector what every one must withstand: signatures that are wrong, missing or
// replayed, duplicates, reordering, rubbish, bodies that are too large, and
// senders that are slow or die.
//
// It fakes no part of the hub: requests go through the real one, and its history
// is that of the virtual player.
package connectortest
