package bench

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

// TestHooks runs the measurement itself, briefly: every webhook is answered 200,
// and what the figures are made of is there. How large they are is not looked at.
func TestHooks(t *testing.T) {
	rep, err := Hooks(t.Context(), HooksConfig{Dir: t.TempDir(), Sync: "group", Callers: 8, Rounds: 1, During: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Requests.Rate <= 0 || len(rep.Hooks) != 2 {
		t.Fatalf("%+v", rep)
	}
	for _, h := range rep.Hooks {
		if h.Rate <= 0 || h.Callers != 8 || h.Ratio <= 0 || h.P99 < h.P50 {
			t.Errorf("%+v", h)
		}
	}
}

func TestHTTPAnswersAreRead(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n" +
		"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbody" + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	c := &httpConn{r: bufio.NewReader(strings.NewReader(text))}
	for _, want := range []int{200, 503, 200} {
		if got, err := c.answer(); got != want || err != nil {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	if _, err := c.answer(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for _, bad := range []string{"HTTP\r\n", "HTTP/1.1 abc OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n"} {
		c := &httpConn{r: bufio.NewReader(strings.NewReader(bad))}
		if _, err := c.answer(); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
