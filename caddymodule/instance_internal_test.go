package caddymodule

import (
	"testing"

	"go.uber.org/zap"
)

// The last request of a configuration that was replaced is answered although a worker of it is still at work.
func TestLastRequestDoesNotWaitForWorkers(t *testing.T) {
	t.Parallel()
	stopped, told, closed := make(chan struct{}), make(chan struct{}), false
	i := &instance{stop: func() { close(told) }, stopped: stopped, gone: make(chan struct{}), log: zap.NewNop()}
	i.onClose("store", func() error { closed = true; return nil })
	i.users.Store(2)
	i.leave()
	i.leave() // would wait for ever
	<-told
	if i.hold() {
		t.Error("another request is let in")
	}
	select {
	case <-i.gone:
		t.Error("closed while a worker is at work")
	default:
	}
	close(stopped)
	<-i.gone
	if !closed {
		t.Error("not closed")
	}
}
