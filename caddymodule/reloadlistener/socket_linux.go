package reloadlistener

import (
	"context"
	"errors"
	"math"
	"net"
	"reflect"
	"syscall"

	"golang.org/x/sys/unix"
)

// pin returns a socket for the address of ln into which the system puts every connection to it, whichever others are
// opened there later with SO_REUSEPORT: a program chooses the first socket of the group. The others can then be closed
// without a loss. It is ln itself, or another one in its place; nil: neither can be pinned.
func pin(ln net.Listener) net.Listener {
	if ln.Addr().Network() != "tcp" {
		return nil
	}
	if choose(ln) == nil {
		return ln
	}
	// Go listens with Multipath TCP, which takes no such program.
	other, err := plainSocket(ln)
	if err != nil {
		return nil
	}
	if choose(other) != nil {
		_ = other.Close()
		return nil
	}
	_ = ln.Close() // now the other one is the first
	return other
}

// choose makes the first socket of the group of ln the one that gets the connections.
func choose(ln net.Listener) error {
	first := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	return control(ln, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &first})
	})
}

// nowhere is the index of an interface that does not exist.
const nowhere = math.MaxInt32

// hide makes a socket of the group invisible to new connections before it is closed. The system leaves a socket that
// is being closed in the list of those that listen for a moment after it has left its group; a connection that it finds
// there is reset. (Linux, inet_unhash and inet_lhash2_lookup) Without it, one of 40 reloads under load lost one.
func hide(ln net.Listener) error {
	return control(ln, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, nowhere) })
}

// plainSocket opens a socket of plain TCP at the address of ln.
func plainSocket(ln net.Listener) (net.Listener, error) {
	network := "tcp"
	if a, ok := ln.Addr().(*net.TCPAddr); ok && a.IP.To4() == nil {
		err := control(ln, func(fd int) error {
			only, err := unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
			if only != 0 {
				network = "tcp6"
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return listenShared(context.Background(), network, ln.Addr().String(), false)
}

// listenShared opens a socket as Caddy does, which others can share the address with.
func listenShared(ctx context.Context, network, addr string, multipath bool) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(failed, err)
	}}
	lc.SetMultipathTCP(multipath)
	return lc.Listen(ctx, network, addr)
}

// control calls f with the descriptor of ln. Caddy wraps it in types that embed net.Listener and hide the rest.
func control(ln net.Listener, f func(fd int) error) error {
	for range 4 {
		if s, ok := ln.(syscall.Conn); ok {
			raw, err := s.SyscallConn()
			if err != nil {
				return err
			}
			failed := raw.Control(func(fd uintptr) { err = f(int(fd)) })
			return errors.Join(failed, err)
		}
		v := reflect.Indirect(reflect.ValueOf(ln))
		if v.Kind() != reflect.Struct {
			break
		}
		inner := v.FieldByName("Listener")
		if !inner.IsValid() || !inner.CanInterface() {
			break
		}
		next, ok := inner.Interface().(net.Listener)
		if !ok {
			break
		}
		ln = next
	}
	return errors.ErrUnsupported
}
