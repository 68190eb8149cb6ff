package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// loop is a closed loop over some connections in one thread: each connection sends the next request as soon as it has
// an answer.
type loop struct {
	t         target
	epoll     int
	conns     map[int32]*loopConn
	latencies []time.Duration
	done      int
}

type loopConn struct {
	fd    int
	began time.Time
	due   time.Time // when a paced request should have been sent
	buf   []byte    // the answer so far
}

func newLoop(t target) (*loop, error) {
	at, err := netip.ParseAddrPort(t.addr)
	if err != nil {
		return nil, err
	}
	l := &loop{t: t, conns: map[int32]*loopConn{}}
	if l.epoll, err = syscall.EpollCreate1(0); err != nil {
		return nil, err
	}
	for range t.conns {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.conns[int32(fd)] = &loopConn{fd: fd, buf: make([]byte, 0, 16<<10)} //nolint:gosec // a small number
		err = errors.Join(
			syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
			syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}),
			syscall.SetNonblock(fd, true),
			syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, fd, //nolint:gosec // a small number
				&syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}),
		)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *loop) close() error {
	for _, c := range l.conns {
		_ = syscall.Close(c.fd)
	}
	return syscall.Close(l.epoll)
}

// run sends requests on every connection until the end, or until limit answers have arrived, and waits for the rest.
func (l *loop) run(end time.Time, limit int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waiting, asked := 0, 0
	more := func() bool { return time.Now().Before(end) && (limit == 0 || asked < limit) }
	for _, c := range l.conns {
		if err := l.ask(c); err != nil {
			return err
		}
		waiting++
		asked++
	}
	events := make([]syscall.EpollEvent, 128)
	for waiting > 0 {
		n, err := syscall.EpollWait(l.epoll, events, 30_000)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return errors.New("no answer within 30 s")
		}
		for _, e := range events[:n] {
			c := l.conns[e.Fd]
			whole, err := l.answer(c)
			if err != nil {
				return err
			}
			if !whole {
				continue
			}
			l.done++
			if limit == 0 {
				l.latencies = append(l.latencies, time.Since(c.began))
			}
			waiting--
			if !more() {
				continue
			}
			if err := l.ask(c); err != nil {
				return err
			}
			waiting++
			asked++
		}
	}
	return nil
}

func (l *loop) ask(c *loopConn) error {
	request := l.t.request
	if l.t.next != nil {
		var err error
		if request, err = l.t.next(); err != nil {
			return err
		}
	}
	c.began, c.buf = time.Now(), c.buf[:0]
	n, err := syscall.Write(c.fd, request)
	if err == nil && n < len(request) {
		err = errors.New("the request does not fit in the socket's buffer")
	}
	return err
}

// answer reads the available bytes and reports whether the answer is complete.
func (l *loop) answer(c *loopConn) (bool, error) {
	if len(c.buf) == cap(c.buf) {
		return false, errors.New("an answer is too long")
	}
	n, err := syscall.Read(c.fd, c.buf[len(c.buf):cap(c.buf)])
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, errors.New("the server closed a connection")
	}
	c.buf = c.buf[:len(c.buf)+n]
	head := bytes.Index(c.buf, []byte("\r\n\r\n"))
	if head < 0 {
		return false, nil
	}
	if status := string(c.buf[9:12]); status != strconv.Itoa(l.t.want) {
		return false, fmt.Errorf("status %s, want %d: %.300s", status, l.t.want, c.buf)
	}
	body := c.buf[head+4:]
	if length, ok := header(c.buf[:head+2], "\r\ncontent-length: "); ok {
		size, err := strconv.Atoi(length)
		return len(body) >= size, err
	}
	return bytes.HasSuffix(body, []byte("0\r\n\r\n")), nil // chunked
}

// header returns a header field, found by its name in lower case between line end and space.
func header(head []byte, name string) (string, bool) {
	for i := 0; i+len(name) <= len(head); i++ {
		if head[i] == '\r' && bytes.EqualFold(head[i:i+len(name)], []byte(name)) {
			rest := head[i+len(name):]
			if end := bytes.IndexByte(rest, '\r'); end >= 0 {
				return string(rest[:end]), true
			}
		}
	}
	return "", false
}
