package lab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is one kept-alive connection that sends prepared requests and reads answers, with almost no work of its own.
type Conn struct {
	addr string
	c    net.Conn
	r    *bufio.Reader
	Body []byte // of the last answer, valid until the next; only kept when Keep is set
	Keep bool
}

// Dial opens a connection.
func Dial(addr string) (*Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{addr: addr, c: c, r: bufio.NewReaderSize(c, 16<<10)}, nil
}

// Close closes the connection.
func (c *Conn) Close() { _ = c.c.Close() }

// Do sends a request, reads the answer and returns its status.
func (c *Conn) Do(request []byte) (int, error) {
	if err := c.c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := c.c.Write(request); err != nil {
		return 0, err
	}
	return c.read()
}

var (
	lengthName  = []byte("content-length:")
	chunkedName = []byte("transfer-encoding: chunked")
)

func (c *Conn) read() (int, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, fmt.Errorf("status line %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	length, chunked := 0, false
	for {
		line, err = c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		switch {
		case hasFold(line, lengthName):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):]))); err != nil {
				return 0, err
			}
		case hasFold(line, chunkedName):
			chunked = true
		}
	}
	c.Body = c.Body[:0]
	if chunked {
		return status, c.chunks()
	}
	return status, c.take(length)
}

func hasFold(line, prefix []byte) bool {
	return len(line) >= len(prefix) && bytes.EqualFold(line[:len(prefix)], prefix)
}

func (c *Conn) take(n int) error {
	if !c.Keep {
		_, err := c.r.Discard(n)
		return err
	}
	at := len(c.Body)
	c.Body = append(c.Body, make([]byte, n)...)
	_, err := io.ReadFull(c.r, c.Body[at:])
	return err
}

func (c *Conn) chunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return err
		} else if len(line) > 2 {
			return errors.New("a chunk is longer than it says")
		}
		if n == 0 {
			return nil
		}
	}
}

// Request writes a request without a body, or with a form, for Do. host is its Host header.
func Request(method, host, path, form string, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: lab\r\n", method, path, host)
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if method == "POST" {
		fmt.Fprintf(&b, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(form))
	}
	b.WriteString("\r\n" + form)
	return b.Bytes()
}

// DoClosing is Do for a request that the server may refuse before it has read all of it: the answer counts even if the
// rest could not be sent. HEAD answers have no body.
func (c *Conn) DoClosing(request []byte) (int, error) {
	if err := c.c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.c.Write(request)
		sent <- err
	}()
	if bytes.HasPrefix(request, []byte("HEAD ")) {
		line, err := c.r.ReadSlice('\n')
		if err != nil || len(line) < 12 {
			return 0, fmt.Errorf("status line %q: %w", line, err)
		}
		return strconv.Atoi(string(line[9:12]))
	}
	status, err := c.read()
	if err == nil {
		return status, nil
	}
	return status, errors.Join(err, c.c.Close(), <-sent)
}
