package envoyauthz

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/acceptloop"
)

// sockets are the open sockets by address. They outlive a reload: the configuration that is new accepts what arrives,
// and none of what has arrived is lost.
var sockets = caddy.NewUsagePool()

// socket hands the connections that it accepts to the listeners that share it.
type socket struct {
	net.Listener

	conns chan net.Conn
	gone  chan struct{}
	done  chan struct{}
}

// listen returns a listener on an address. It shares the socket with that of a configuration that is about to end.
func listen(address string) (net.Listener, error) {
	var key any = address
	if strings.HasSuffix(address, ":0") { // any free port: each time another
		key = new(byte)
	}
	held, _, err := sockets.LoadOrNew(key, func() (caddy.Destructor, error) {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
		if err != nil {
			return nil, err
		}
		s := &socket{Listener: l, conns: make(chan net.Conn), gone: make(chan struct{}), done: make(chan struct{})}
		go s.accept()
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return &share{socket: held.(*socket), key: key, closed: make(chan struct{})}, nil //nolint:forcetypeassert // nothing else is in there
}

func (s *socket) accept() {
	defer close(s.done)
	acceptloop.Run(s.Listener, func(c net.Conn) {
		select {
		case s.conns <- c:
		case <-s.gone:
			c.Close() //nolint:errcheck // no one is there
		}
	})
}

// Destruct implements caddy.Destructor.
func (s *socket) Destruct() error {
	close(s.gone)
	err := s.Close()
	<-s.done
	return err
}

// share is the listener of one configuration.
type share struct {
	*socket

	key    any
	once   sync.Once
	closed chan struct{}
}

func (s *share) Accept() (net.Conn, error) {
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
	case <-s.done:
	}
	return nil, net.ErrClosed
}

// Close ends this listener. The socket is closed with the last one.
func (s *share) Close() (err error) {
	s.once.Do(func() {
		close(s.closed)
		_, err = sockets.Delete(s.key)
	})
	return err
}
