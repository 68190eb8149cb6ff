package smtp_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a mail server that does what a test says.
type server struct {
	t      *testing.T
	listen net.Listener
	tls    *tls.Config // nil: no STARTTLS
	direct bool        // TLS from the first byte
	roots  *x509.CertPool
	user   string            // user NUL password. Empty: no AUTH
	say    map[string]string // answers by the verb, banner and "." for the end of the data; "drop" closes the connection

	mu    sync.Mutex // guards mails
	mails []delivery
}

// delivery is a mail that the server has accepted.
type delivery struct {
	from       string
	to         []string
	data       string
	encrypted  bool
	authorised bool
}

func newServer(t *testing.T, change func(*server)) *server {
	t.Helper()
	s := &server{t: t, say: map[string]string{}}
	cert, roots := certificate(t)
	s.roots = roots
	s.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if change != nil {
		change(s)
	}
	var err error
	if s.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		s.listen.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := s.listen.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if s.direct {
					conn = tls.Server(conn, s.tls)
				}
				s.serve(conn, s.direct)
			})
		}
	})
	return s
}

func (s *server) address() string { return s.listen.Addr().String() }

func (s *server) taken() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mails
}

// serve speaks with one client.
func (s *server) serve(conn net.Conn, encrypted bool) {
	r := bufio.NewReader(conn)
	answer := func(key, standard string) bool {
		if text, ok := s.say[key]; ok {
			standard = text
		}
		if standard == "silence" {
			_, _ = r.ReadByte() // until the client goes
			return false
		}
		if standard == "drip" { // until the client goes
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := conn.Write([]byte("2")); err != nil {
					return false
				}
			}
		}
		if standard == "drop" {
			return false
		}
		fmt.Fprintf(conn, "%s\r\n", standard)
		return true
	}
	if !answer("banner", "220 mail.test ESMTP") {
		return
	}
	m := delivery{encrypted: encrypted}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		switch verb = strings.ToUpper(verb); verb {
		case "EHLO":
			lines := []string{"250-mail.test"}
			if s.tls != nil && !m.encrypted {
				lines = append(lines, "250-STARTTLS")
			}
			if s.user != "" {
				lines = append(lines, "250-AUTH PLAIN")
			}
			if !answer(verb, strings.Join(append(lines, "250 8BITMIME"), "\r\n")) {
				return
			}
		case "STARTTLS":
			if !answer(verb, "220 go on") {
				return
			}
			conn = tls.Server(conn, s.tls)
			r = bufio.NewReader(conn)
			m = delivery{encrypted: true}
		case "AUTH":
			_, given, _ := strings.Cut(rest, " ")
			raw, err := base64.StdEncoding.DecodeString(given)
			m.authorised = err == nil && string(raw) == "\x00"+s.user
			standard := "235 welcome"
			if !m.authorised {
				standard = "535 no"
			}
			if !answer(verb, standard) {
				return
			}
		case "MAIL":
			m.from = rest
			if !answer(verb, "250 ok") {
				return
			}
		case "RCPT":
			m.to = append(m.to, rest)
			if !answer(verb, "250 ok") {
				return
			}
		case "DATA":
			if !answer(verb, "354 go on") {
				return
			}
			if strings.HasPrefix(s.say[verb], "5") || strings.HasPrefix(s.say[verb], "4") {
				continue
			}
			var b strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				b.WriteString(strings.TrimPrefix(line, "."))
			}
			m.data = b.String()
			s.mu.Lock()
			s.mails = append(s.mails, m)
			s.mu.Unlock()
			if !answer(".", "250 taken") {
				return
			}
		case "QUIT":
			answer(verb, "221 bye")
			return
		default:
			if !answer(verb, "250 ok") {
				return
			}
		}
	}
}

// certificate returns one for 127.0.0.1, and who vouches for it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
