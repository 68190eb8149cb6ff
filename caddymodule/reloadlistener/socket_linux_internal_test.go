package reloadlistener

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestHiddenSocketIsNotFound: the system finds a socket that is about to be closed for no connection, which the end of
// the socket would reset.
func TestHiddenSocketIsNotFound(t *testing.T) {
	t.Parallel()
	for name, multipath := range map[string]bool{"plain TCP": false, "Multipath TCP, as Caddy opens it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := listenShared(t.Context(), "tcp", "127.0.0.1:0", multipath)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
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
