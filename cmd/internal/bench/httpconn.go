package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// httpConn is one connection of an HTTP client that costs next to nothing, so
// that the server is what is measured. It keeps the connection and sends one
// request after the other.
type httpConn struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
}

func dialHTTP(ctx context.Context, address string) (*httpConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect a sender: %w", err)
	}
	return &httpConn{conn: c, r: bufio.NewReader(c)}, nil
}

// post sends a body with some header lines, each with its line's end, and returns
// the answer's status.
func (c *httpConn) post(path, header string, body []byte) (status int, err error) {
	c.out = append(c.out[:0], "POST "...)
	c.out = append(append(c.out, path...), " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = append(strconv.AppendInt(c.out, int64(len(body)), 10), "\r\n"...)
	c.out = append(append(append(c.out, header...), "\r\n"...), body...)
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	return c.answer()
}

var errAnswer = errors.New("the answer is no HTTP/1.1")

// answer reads a whole answer whose length is given.
func (c *httpConn) answer() (status int, err error) {
	length := 0
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte(": ")); {
		case first:
			if len(line) < len("HTTP/1.1 200") {
				return 0, errAnswer
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, errAnswer
			}
		case len(line) == 0:
			_, err := io.CopyN(io.Discard, c.r, int64(length))
			return status, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, errAnswer
			}
		}
	}
}
