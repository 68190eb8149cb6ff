package reloadlistener

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHiddenSocketIsNotFound: the system finds a socket that is about to be closed for no connection, which the end of
// the socket would reset.
func TestHiddenSocketIsNotFound(t *testing.T) {
	t.Parallel()
	for name, multipath := range map[string]bool{"plain TCP": false, "Multipath TCP, as Caddy opens it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := openShared(t, multipath)
			dial := func() error {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err == nil {
					_ = c.Close()
				}
				return err
			}
			if err := dial(); err != nil {
				t.Fatal(err)
			}
			if err := hide(ln); err != nil {
				t.Fatal(err)
			}
			if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial = %v, want a refusal", err)
			}
		})
	}
}

// openShared opens a socket as Caddy does, which others can share the address with.
func openShared(t *testing.T, multipath bool) net.Listener {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(failed, err)
	}}
	lc.SetMultipathTCP(multipath)
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}
