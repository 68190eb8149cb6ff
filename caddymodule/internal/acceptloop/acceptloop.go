// Package acceptloop accepts the connections of a socket that outlives reloads.
package acceptloop

import (
	"errors"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// How long Run waits after an error: twice as long each time.
const (
	shortest = 5 * time.Millisecond
	longest  = time.Second
)

// Run hands each connection to give until the socket is closed. Other errors pass: package net returns them when, for
// instance, the process has no file descriptors left.
func Run(socket net.Listener, give func(net.Conn)) {
	pause := time.Duration(0)
	for {
		c, err := socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			pause = min(max(2*pause, shortest), longest)
			caddy.Log().Named("gatehouse.listener").Warn("connections cannot be accepted",
				zap.Stringer("address", socket.Addr()), zap.Error(err), zap.Duration("next_try", pause))
			time.Sleep(pause)
		default:
			pause = 0
			give(c)
		}
	}
}
