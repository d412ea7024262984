package pubsub_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// restartWord makes the test program ask another one for a restart of its
// server, instead of running tests. Watermill's suite restarts a service by a
// command; this is that command.
const restartWord = "restart-nats-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == restartWord {
		os.Exit(askForRestart(os.Args[2]))
	}
	if os.Getenv(suiteChild) != "" {
		os.Exit(m.Run()) // the suite leaves goroutines of its own behind
	}
	goleak.VerifyTestMain(m)
}

func askForRestart(url string) int {
	resp, err := http.Post(url, "", nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ask for a restart:", err)
		return 1
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		fmt.Fprintln(os.Stderr, "ask for a restart:", resp.Status)
		return 1
	}
	return 0
}
