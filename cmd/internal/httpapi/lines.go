package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLine is a line that is longer than lines may be. It was passed over.
var errLine = errors.New("the line is longer than 1 MiB")

// lineReader reads lines of bounded length: it never holds more than one.
type lineReader struct {
	r    *bufio.Reader
	most int
	line int // number of the last line read, from 1
	buf  []byte
}

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next line that is not empty, without its end; it is good until
// the next call. The error is errLine, io.EOF at the end, or the reader's.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.read()
		if line = bytes.TrimSpace(line); len(line) > 0 || err != nil {
			return line, err
		}
	}
}

// read reads one line of any kind. What is left when the input ends is a line.
func (l *lineReader) read() ([]byte, error) {
	l.buf = l.buf[:0]
	long, some := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		some = some || len(part) > 0
		if len(l.buf)+len(part) > l.most+1 {
			long = true
		}
		if !long {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && some:
			err = nil
		}
		if err != nil {
			return nil, err
		}
		l.line++
		if long {
			return nil, errLine
		}
		return l.buf, nil
	}
}
