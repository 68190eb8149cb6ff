package lab

import (
	"bytes"
	"net"
	"sync"
)

// Cutter is the network between a node and its database: a proxy that can be cut.
type Cutter struct {
	listener net.Listener
	to       string
	old, new []byte // what is replaced in what the node sends, of the same length

	mu    sync.Mutex // guards all below
	conns map[net.Conn]bool
	cut   bool
	open  chan struct{} // closed while anything passes
	wg    sync.WaitGroup
}

// NewCutter returns a proxy in front of an address. It replaces old by new, which must be as long, in what goes there.
func NewCutter(to, old, replacement string) (*Cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cutter{listener: l, to: to, old: []byte(old), new: []byte(replacement), conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(c.open)
	c.wg.Go(c.accept)
	return c, nil
}

// Address returns the address on which the proxy listens.
func (c *Cutter) Address() string { return c.listener.Addr().String() }

func (c *Cutter) accept() {
	for {
		from, err := c.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.to)
		c.mu.Lock()
		if err != nil || c.cut {
			_ = from.Close()
			if err == nil {
				_ = to.Close()
			}
			c.mu.Unlock()
			continue
		}
		c.conns[from], c.conns[to] = true, true
		c.mu.Unlock()
		c.wg.Go(func() { c.relay(from, to, c.old) })
		c.wg.Go(func() { c.relay(to, from, nil) })
	}
}

func (c *Cutter) relay(from, to net.Conn, old []byte) {
	defer func() {
		_, _ = from.Close(), to.Close()
		c.mu.Lock()
		delete(c.conns, from)
		c.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.mu.Lock()
			open := c.open
			c.mu.Unlock()
			<-open
			out := buf[:n]
			if len(old) > 0 {
				out = bytes.ReplaceAll(out, old, c.new)
			}
			if _, err := to.Write(out); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Cut resets all connections, and those to come, until Mend.
func (c *Cutter) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.drop()
}

// drop closes all connections, with the lock held.
func (c *Cutter) drop() {
	for conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// Stall lets nothing pass until Mend, and tells no one.
func (c *Cutter) Stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = make(chan struct{})
}

// Mend ends Cut and Stall. What was stalled arrives then.
func (c *Cutter) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
	select {
	case <-c.open:
	default:
		close(c.open)
	}
}

// Close ends the proxy.
func (c *Cutter) Close() {
	_ = c.listener.Close()
	c.Mend()
	c.mu.Lock()
	c.drop()
	c.mu.Unlock()
	c.wg.Wait()
}
