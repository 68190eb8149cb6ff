package ldap

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// idleLife is the time that an unused connection stays open: firewalls forget those that are older.
	idleLife = 30 * time.Second
	// rest is the time that a server that has failed is tried last.
	rest = 15 * time.Second
	// least is the shortest time that one of several servers gets.
	least = time.Second
)

// errClosed says that the provider has been switched off.
var errClosed = errors.New("the provider is closed")

// pool holds the connections to all servers of a directory.
type pool struct {
	servers []*server
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	ca      *x509.CertPool
	now     func() time.Time
	log     *zap.Logger
	slots   chan struct{}
	timeout time.Duration // of a sign-in

	mu     sync.Mutex // guards all below
	free   []*conn    // the one that was used last is last
	failed map[*server]time.Time
	sweep  *time.Timer
	closed bool
}

// do has fn ask the directory by a connection. If the server fails, fn is called again with another connection, as long
// as retry says so and ctx lasts.
func (p *pool) do(ctx context.Context, retry func() bool, fn func(ctx context.Context, c *conn) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return fmt.Errorf("all %d connections to the directory are busy: %w", cap(p.slots), context.Cause(ctx))
	}
	order := p.order()
	var failed error
	for i, s := range order {
		err := p.ask(ctx, s, len(order)-i, retry, fn)
		if !errors.As(err, new(*failure)) {
			p.works(s)
			return err
		}
		if errors.Is(context.Cause(ctx), context.Canceled) { // the browser has gone
			return err
		}
		p.failure(s, err)
		failed = errors.Join(failed, err)
		if ctx.Err() != nil || !retry() {
			break
		}
	}
	return failed
}

// ask is do for one server, of which rest have not been tried yet.
func (p *pool) ask(ctx context.Context, s *server, left int, retry func() bool, fn func(ctx context.Context, c *conn) error) error {
	if left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(least, p.timeout/time.Duration(len(p.servers))))
		defer cancel()
	}
	for {
		c, err := p.take(ctx, s)
		if err != nil {
			return err
		}
		err = p.try(ctx, c, fn)
		stale := c.used && errors.As(err, new(*failure)) && ctx.Err() == nil && retry()
		p.give(c)
		if !stale { // otherwise the server had closed a connection that was idle
			return err
		}
	}
}

// try asks by one connection. One that was open before gets half the time: no one may be at its other end any more.
func (p *pool) try(ctx context.Context, c *conn, fn func(ctx context.Context, c *conn) error) error {
	if c.used {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout/time.Duration(2*len(p.servers)))
		defer cancel()
	}
	return fn(ctx, c)
}

// order returns the servers, those that have failed lately last. One caller tries a server again that has rested: if
// all did, the connections to the others would be closed for it.
func (p *pool) order() []*server {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	var good, bad []*server
	for _, s := range p.servers {
		at, failed := p.failed[s]
		if failed && now.Sub(at) < rest {
			bad = append(bad, s)
			continue
		}
		good = append(good, s)
		if failed {
			p.failed[s] = now
		}
	}
	return append(good, bad...)
}

func (p *pool) works(s *server) {
	p.mu.Lock()
	delete(p.failed, s)
	p.mu.Unlock()
}

func (p *pool) failure(s *server, err error) {
	p.mu.Lock()
	p.failed[s] = p.now()
	p.mu.Unlock()
	p.log.Warn("a server of the directory fails", zap.String("server", s.url), zap.Error(err))
}

// take returns a connection to a server: one that is open, or a new one.
func (p *pool) take(ctx context.Context, s *server) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	old := p.expired()
	var c *conn
	for i := len(p.free) - 1; i >= 0; i-- {
		if p.free[i].server == s {
			c = p.free[i]
			p.free = append(p.free[:i], p.free[i+1:]...)
			break
		}
	}
	var spare *conn
	if c == nil && len(p.free)+len(p.slots) > cap(p.slots) { // those that are open are to other servers
		spare, p.free = p.free[0], p.free[1:]
	}
	p.mu.Unlock()
	closeAll(old)
	if spare != nil {
		spare.close()
	}
	if c != nil {
		c.used = true
		return c, nil
	}
	return p.dial(ctx, s)
}

// give takes a connection back.
func (p *pool) give(c *conn) {
	p.mu.Lock()
	keep := !c.dirty && !p.closed && !c.ldap.IsClosing()
	if keep {
		c.idle, c.used = p.now(), false
		p.free = append(p.free, c)
		if p.sweep == nil {
			p.sweep = time.AfterFunc(idleLife+time.Second, p.clean)
		}
	}
	p.mu.Unlock()
	if !keep {
		c.close()
	}
}

// expired takes out the connections that no one has used for long. mu is held.
func (p *pool) expired() (old []*conn) {
	now, kept := p.now(), p.free[:0]
	for _, c := range p.free {
		if now.Sub(c.idle) > idleLife || c.ldap.IsClosing() {
			old = append(old, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(p.free[len(kept):])
	p.free = kept
	return old
}

// clean closes the connections that no one uses.
func (p *pool) clean() {
	p.mu.Lock()
	old := p.expired()
	p.sweep = nil
	if len(p.free) > 0 && !p.closed {
		p.sweep = time.AfterFunc(idleLife+time.Second, p.clean)
	}
	p.mu.Unlock()
	closeAll(old)
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.free
	p.free = nil
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(list []*conn) {
	for _, c := range list {
		c.close()
	}
}
