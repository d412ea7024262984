// Command muster is Muster: the server (`muster serve`) and everything that a
// person or a script asks of it.
//
// Data goes to stdout and everything else to stderr; the exit code says what
// became of it (see exit.go, or `muster help exit-codes`). Authoritative is the
// server, or for `try` and `machines` the files given: the program keeps
// nothing of its own. Each command is in the file of its name.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}
