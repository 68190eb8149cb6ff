package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/mail"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What a mail server can do wrong, in addition to Good, Down and Slow.
const (
	Later  = "4xx"
	Never  = "5xx"
	Forget = "accept, then drop" // it accepts the message and does not say so
)

// Mail is one message that the mail server has accepted.
type Mail struct{ ID, To, Body string }

// MailServer is a mail server on this machine that behaves as it is told.
type MailServer struct {
	Addr string

	mode     atomic.Value
	listener net.Listener
	done     chan struct{}
	all      sync.WaitGroup

	mu    sync.Mutex // guards mails and open
	mails []Mail
	open  map[net.Conn]bool
}

// NewMailServer starts a server that works.
func NewMailServer() (*MailServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &MailServer{Addr: l.Addr().String(), listener: l, done: make(chan struct{}), open: map[net.Conn]bool{}}
	m.Be(Good)
	m.all.Go(m.accept)
	return m, nil
}

// Be changes what the server does.
func (m *MailServer) Be(mode string) { m.mode.Store(mode) }

// Close ends the server and every connection.
func (m *MailServer) Close() {
	close(m.done)
	_ = m.listener.Close()
	m.mu.Lock()
	for c := range m.open {
		_ = c.Close()
	}
	m.mu.Unlock()
	m.all.Wait()
}

// Mails returns the accepted messages.
func (m *MailServer) Mails() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Mail(nil), m.mails...)
}

func (m *MailServer) accept() {
	for {
		c, err := m.listener.Accept()
		if err != nil {
			return
		}
		if m.mode.Load() == Down { // the closest to an absent server that keeps the port
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
			continue
		}
		m.mu.Lock()
		m.open[c] = true
		m.mu.Unlock()
		m.all.Go(func() {
			m.serve(c, m.mode.Load().(string))
			_ = c.Close()
			m.mu.Lock()
			delete(m.open, c)
			m.mu.Unlock()
		})
	}
}

// serve talks with one client.
func (m *MailServer) serve(c net.Conn, mode string) {
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if mode == Slow {
		select {
		case <-m.done:
		case <-time.After(30 * time.Second):
		}
		return
	}
	r := bufio.NewReader(c)
	say := func(line string) { fmt.Fprintf(c, "%s\r\n", line) }
	say("220 lab ESMTP")
	var to string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch verb, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " "); strings.ToUpper(verb) {
		case "RCPT":
			to = strings.Trim(strings.TrimPrefix(rest, "TO:"), "<>")
			say("250 ok")
		case "DATA":
			say("354 go on")
			body, err := readData(r)
			if err != nil {
				return
			}
			switch mode {
			case Later:
				say("451 later")
				continue
			case Never:
				say("554 never")
				continue
			}
			m.keep(to, body)
			if mode == Forget {
				return
			}
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func readData(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == ".\r\n" {
			return b.String(), nil
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
}

func (m *MailServer) keep(to, raw string) {
	one := Mail{To: to, Body: raw}
	if msg, err := mail.ReadMessage(strings.NewReader(raw)); err == nil {
		one.ID = msg.Header.Get("Message-Id")
		_, one.Body, _ = strings.Cut(raw, "\r\n\r\n")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mails = append(m.mails, one)
}
