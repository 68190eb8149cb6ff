package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailServer is a real mail server: it offers STARTTLS, and accepts mail only after it and only from one user.
type mailServer struct {
	address, certificate string // certificate: path of the PEM file to trust
	user, password       string
	refuse               atomic.Bool
	refused              atomic.Int64
	mails                chan letter
}

// bounces is the beginning of the addresses that the server refuses for good.
const bounces = "bounces"

// letter is a mail that the server has accepted.
type letter struct {
	from      string
	to        []string
	encrypted bool
	raw       []byte
}

func newMailServer(t *testing.T) *mailServer {
	t.Helper()
	m := &mailServer{user: "gatehouse", password: random(16), mails: make(chan letter, 100)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	m.certificate = filepath.Join(t.TempDir(), "mail.pem")
	if err := os.WriteFile(m.certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := smtp.NewServer(smtp.BackendFunc(func(conn *smtp.Conn) (smtp.Session, error) { return &mailSession{server: m, conn: conn}, nil }))
	srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	srv.Domain, srv.ReadTimeout, srv.WriteTimeout = "mail.test", time.Minute, time.Minute
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	go srv.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { srv.Close() })
	return m
}

// refusesOne waits until the server has refused a mail.
func (m *mailServer) refusesOne(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); m.refused.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no mail was tried")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// mailSession is one connection. It implements smtp.AuthSession.
type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	known  bool
	letter letter
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.user || password != s.server.password {
			return errors.New("no such user")
		}
		s.known = true
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	_, s.letter.encrypted = s.conn.TLSConnectionState()
	s.letter.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, bounces) {
		s.server.refused.Add(1)
		return &smtp.SMTPError{Code: 550, Message: "no such mailbox"}
	}
	s.letter.to = append(s.letter.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.server.refuse.Load() {
		s.server.refused.Add(1)
		return &smtp.SMTPError{Code: 451, Message: "later"}
	}
	s.letter.raw = raw
	s.server.mails <- s.letter
	return nil
}

func (s *mailSession) Reset()        { s.letter = letter{} }
func (s *mailSession) Logout() error { return nil }

// next returns the next letter: its header, its text and its HTML.
func (m *mailServer) next(t *testing.T) (header mail.Header, parts map[string]string) {
	t.Helper()
	var l letter
	select {
	case l = <-m.mails:
	case <-time.After(90 * time.Second):
		t.Fatal("no mail came")
	}
	if !l.encrypted || l.from != "no-reply@example.com" || len(l.to) != 1 {
		t.Errorf("letter from %s to %v, encrypted %t", l.from, l.to, l.encrypted)
	}
	msg, err := mail.ReadMessage(bytes.NewReader(l.raw))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject")) // RFC 2047
	if err != nil {
		t.Fatal(err)
	}
	msg.Header["Subject"] = []string{subject}
	parts = map[string]string{}
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return msg.Header, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		content, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil || p.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
			t.Fatalf("%s: %v", kind, err)
		}
		parts[kind] = string(content)
	}
}

// TestMail sends a person the mails about a new account, a changed password and the end of the account, through a
// server with STARTTLS and AUTH that refuses once, and across a kill.
func TestMail(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	s := startEdited(t, "", func(caddyfile string) string {
		lines := fmt.Sprintf("\n\t\tmail smtp %s {\n\t\t\tfrom \"The gate <no-reply@example.com>\"\n\t\t\tusername %s\n\t\t\tpassword {env.TEST_SMTP_PASSWORD}\n\t\t}\n\t\tidentity {\n\t\t\tlocales en nl de fr", m.address, m.user)
		return strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
	}, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	if out, err := s.gatehouse("", "gatehouse", "--address", s.Admin, "check"); !strings.Contains(out, "mail           ok") {
		t.Errorf("check = %s, %v", out, err)
	}
	units := filepath.Join(s.dir, "units.json")
	if err := os.WriteFile(units,
		[]byte(`{"email_notifications":{"welcome":{"on_api_enabled":true},"attributes_update":{"on_password_updated":true},"account_removed":true}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("", "config", "import", units)
	password := random(12)
	s.secret("password of ann", password)
	s.must(password+"\n", "person", "add", "ann@example.com", "--name", "Ann <script>")
	header, parts := m.next(t)
	if header.Get("To") != "<ann@example.com>" || header.Get("Auto-Submitted") != "auto-generated" ||
		header.Get("Subject") != "Welcome to Gatehouse" || !strings.Contains(parts["text/plain"], "Hello Ann <script>,") {
		t.Errorf("mail = %v %q", header, parts["text/plain"])
	}
	lookAtMail(t, s, "mail-welcome", parts["text/html"])

	m.refuse.Store(true)
	s.must(random(12)+"\n", "person", "passwd", "ann@example.com")
	m.refusesOne(t)
	s.must("", "person", "remove", "ann@example.com")
	m.refuse.Store(false)
	subjects := map[string]bool{}
	for range 2 {
		header, parts = m.next(t)
		subjects[header.Get("Subject")] = true
		if strings.Contains(parts["text/plain"]+parts["text/html"], password) {
			t.Error("a password is in the mail")
		}
	}
	if !subjects["Your password at Gatehouse has changed"] || !subjects["Your account at Gatehouse was removed"] {
		t.Errorf("subjects = %v", subjects)
	}
}

// lookAtMail opens the HTML of a mail as a page.
func lookAtMail(t *testing.T, s *server, name, html string) {
	t.Helper()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, html)
	}))
	t.Cleanup(web.Close)
	b := s.browse(t)
	b.open(web.URL)
	for _, size := range [][2]int64{{390, 844}, {1280, 800}} {
		for _, scheme := range []string{"light", "dark"} {
			b.screen(size[0], size[1], scheme)
			b.shot(fmt.Sprintf("%s-%dx%d-%s", name, size[0], size[1], scheme))
			for _, v := range violations(b, string(axe), scheme) {
				t.Errorf("%s, %s: %s", name, scheme, v)
			}
		}
	}
	if n := eval[int](b, `document.querySelectorAll("script, img, iframe").length`); n != 0 {
		t.Errorf("%s has %d elements that it should not have", name, n)
	}
}
