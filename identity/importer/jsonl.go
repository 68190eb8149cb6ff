package importer

import (
	"bufio"
	"errors"
	"io"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// jsonReader reads one JSON object a line, with the members of Person.
type jsonReader struct {
	lines
}

func newJSONL(r *bufio.Reader) *jsonReader { return &jsonReader{lines{in: r}} }

// Next implements Reader. It skips empty lines.
func (j *jsonReader) Next() (p Person, line int, err error) {
	for {
		raw, err := j.next()
		if err != nil {
			return p, j.number, err
		}
		if len(raw) == 0 {
			continue
		}
		if err := jsonapi.DecodeBytes(raw, &p); err != nil {
			problem := "is not the JSON of a person"
			if e := new(jsonapi.Error); errors.As(err, &e) {
				problem = e.Message
			}
			return Person{}, j.number, &LineError{j.number, problem}
		}
		if p.Username == "" {
			return p, j.number, &LineError{j.number, "username is missing"}
		}
		return p, j.number, nil
	}
}

// lines reads lines of a bounded length.
type lines struct {
	in     *bufio.Reader
	number int // of the last line
	back   bool
	last   []byte
}

// next returns the next line without its end. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	if l.back {
		l.back = false
		return l.last, nil
	}
	l.last = l.last[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.last = append(l.last, part...)
		switch {
		case len(l.last) > maxRecord:
			return nil, errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.last) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		l.number++
		for n := len(l.last); n > 0 && (l.last[n-1] == '\n' || l.last[n-1] == '\r'); n = len(l.last) {
			l.last = l.last[:n-1]
		}
		return l.last, nil
	}
}

// unread makes next return the last line again.
func (l *lines) unread() { l.back = true }
