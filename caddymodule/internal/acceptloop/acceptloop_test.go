package acceptloop_test

import (
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/acceptloop"
)

// socket answers each Accept by the next of its results: an error, or a connection if it is nil. Then it is closed.
type socket struct {
	results []error
	asked   []time.Time
}

func (s *socket) Accept() (net.Conn, error) {
	s.asked = append(s.asked, time.Now())
	if len(s.results) == 0 {
		return nil, &net.OpError{Op: "accept", Err: net.ErrClosed}
	}
	err := s.results[0]
	if s.results = s.results[1:]; err != nil {
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return new(net.TCPConn), nil
}

func (*socket) Close() error { return nil }

func (*socket) Addr() net.Addr { return new(net.TCPAddr) }

// TestErrorsPass: without file descriptors it tries again, less often each time, and at once after a connection.
func TestErrorsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &socket{results: append(slices.Repeat([]error{syscall.EMFILE}, 10), nil, nil, syscall.ENOBUFS, nil)}
		given := 0
		acceptloop.Run(s, func(net.Conn) { given++ })
		var pauses []time.Duration
		for i, at := range s.asked[1:] {
			pauses = append(pauses, at.Sub(s.asked[i])/time.Millisecond)
		}
		if want := []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 0, 5, 0}; given != 3 || !slices.Equal(pauses, want) {
			t.Errorf("%d connections are given, the pauses in milliseconds are %d; want 3 and %d", given, pauses, want)
		}
	})
}
