package lab

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The ways in which an identity provider or a directory behaves.
const (
	Good     = "good"
	Down     = "down"      // connections are reset
	Slow     = "slow"      // a request is read and answered after 30 s
	HalfOpen = "half-open" // a connection is accepted and nothing is read
	Drip     = "dripping"  // an answer begins and continues at a byte a second
	Garbage  = "garbage"   // the answer is random bytes
	Endless  = "endless"   // an answer without end
	Flapping = "flapping"  // every other connection is reset
)

// faulty is a listener whose connections work or fail as it is told.
type faulty struct {
	Port  int
	Taken atomic.Int64 // connections

	serve    func(net.Conn) // a connection that works; it closes it
	begin    string         // how an answer begins that drips
	endless  func(net.Conn) // an answer without end, until an error
	mode     atomic.Value   // string
	listener net.Listener
	done     chan struct{}

	mu   sync.Mutex // guards held
	held map[net.Conn]bool
}

// listen starts it, working.
func (f *faulty) listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f.Port, f.listener, f.done, f.held = l.Addr().(*net.TCPAddr).Port, l, make(chan struct{}), map[net.Conn]bool{}
	f.Be(Good)
	go f.accept()
	return nil
}

// Be sets the behaviour from the next connection on. It closes the connections that it holds.
func (f *faulty) Be(mode string) {
	f.mode.Store(mode)
	f.release()
}

// Close ends it.
func (f *faulty) Close() {
	close(f.done)
	_ = f.listener.Close()
	f.release()
}

func (f *faulty) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.held {
		_ = c.Close()
	}
	clear(f.held)
}

// hold keeps a connection, which ends at the next change.
func (f *faulty) hold(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[c] = true
}

func (f *faulty) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, c)
	_ = c.Close()
}

func (f *faulty) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		n := f.Taken.Add(1)
		mode := f.mode.Load().(string)
		if mode == Flapping {
			mode = Good
			if n%2 == 0 {
				mode = Down
			}
		}
		switch mode {
		case Good:
			go f.serve(c)
		case Down:
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0)
			}
			_ = c.Close()
		case HalfOpen:
			f.hold(c)
		default:
			f.hold(c)
			go f.misbehave(c, mode)
		}
	}
}

func (f *faulty) misbehave(c net.Conn, mode string) {
	defer f.drop(c)
	if mode == Endless {
		f.endless(c)
		return
	}
	_, _ = c.Read(make([]byte, 4096)) // any request
	switch mode {
	case Slow:
		f.wait(30 * time.Second)
	case Garbage:
		_, _ = c.Write(Random(64 << 10))
	case Drip:
		_, _ = io.WriteString(c, f.begin)
		for range 30 {
			if _, err := c.Write([]byte(" ")); err != nil || !f.wait(time.Second) {
				return
			}
		}
	}
}

func (f *faulty) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.done:
		return false
	}
}
