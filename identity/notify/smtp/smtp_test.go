package smtp_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/smtp"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

var message = notify.Message{
	ID: "abc@auth.example.com", To: "ann@example.com", Subject: "Grüße aus Köln", Text: "Hallo Ann,\n\n.\nein Punkt\n",
	HTML: "<p>Hallo <b>Ann</b></p>",
	Date: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
}

// transport returns one to a server.
func transport(t *testing.T, s *server, change func(*smtp.Config)) *smtp.Transport {
	t.Helper()
	c := smtp.Config{
		Server: s.address(), From: "Gatehouse <no-reply@example.com>", ReplyTo: "help@example.com", Timeout: 25 * time.Second,
		Helo: "auth.example.com", Roots: s.roots,
	}
	if s.user != "" {
		user, password, _ := strings.Cut(s.user, "\x00")
		c.Username, c.Password = user, secret.New(password)
	}
	if change != nil {
		change(&c)
	}
	tr, err := smtp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server    func(*server)
		config    func(*smtp.Config)
		encrypted bool
	}{
		"STARTTLS where it is offered": {nil, nil, true},
		"loopback without encryption":  {func(s *server) { s.tls = nil }, nil, false},
		"STARTTLS demanded":            {nil, func(c *smtp.Config) { c.TLS = smtp.StartTLS }, true},
		"off":                          {nil, func(c *smtp.Config) { c.TLS = smtp.Off }, false},
		"implicit":                     {func(s *server) { s.direct = true }, func(c *smtp.Config) { c.TLS = smtp.Implicit }, true},
		"with a password":              {func(s *server) { s.user = "gatehouse\x00secret" }, nil, true},
		"with a password, implicit": {
			func(s *server) { s.user, s.direct = "gatehouse\x00secret", true },
			func(c *smtp.Config) { c.TLS = smtp.Implicit }, true,
		},
		"a server that drops after QUIT": {func(s *server) { s.say["QUIT"] = "drop" }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.server)
			tr := transport(t, s, tt.config)
			if err := tr.Check(t.Context()); err != nil {
				t.Errorf("Check = %v", err)
			}
			if err := tr.Deliver(t.Context(), message); err != nil {
				t.Fatal(err)
			}
			list := s.taken()
			if len(list) != 1 || list[0].encrypted != tt.encrypted || list[0].authorised != (s.user != "") {
				t.Fatalf("the server took %+v, want one, encrypted %t", list, tt.encrypted)
			}
			if m := list[0]; !strings.HasPrefix(m.from, "FROM:<no-reply@example.com>") || len(m.to) != 1 || m.to[0] != "TO:<ann@example.com>" {
				t.Errorf("envelope = %q to %q", m.from, m.to)
			}
			read(t, list[0].data)
		})
	}
}

// read holds what was taken against message.
func read(t *testing.T, data string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != message.Subject {
		t.Errorf("Subject = %q, %v", subject, err)
	}
	for name, want := range map[string]string{
		"From": `"Gatehouse" <no-reply@example.com>`, "To": "<ann@example.com>", "Reply-To": "<help@example.com>",
		"Message-Id": "<abc@auth.example.com>", "Auto-Submitted": "auto-generated",
		"Date": "Sat, 21 Nov 2026 12:00:00 +0000", "User-Agent": "", "X-Mailer": "", "Bcc": "", "List-Unsubscribe": "",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("Content-Type = %s, %v, want multipart/alternative", kind, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, want := range []struct{ kind, content string }{{"text/plain", message.Text}, {"text/html", message.HTML}} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(p)
		if got := strings.ReplaceAll(string(content), "\r\n", "\n"); err != nil || !strings.HasPrefix(p.Header.Get("Content-Type"), want.kind) ||
			strings.TrimRight(got, "\n") != strings.TrimRight(want.content, "\n") {
			t.Errorf("part = %s %q, %v, want %s %q", p.Header.Get("Content-Type"), got, err, want.kind, want.content)
		}
	}
}

// TestDeliverFails: every failure is an error within the timeout. Only an address that is unknown to the server is
// given up, and what may be about one message alone is told apart from what is about the server.
func TestDeliverFails(t *testing.T) {
	t.Parallel()
	say := func(key, text string) func(*server) { return func(s *server) { s.say[key] = text } }
	for name, tt := range map[string]struct {
		server func(*server)
		config func(*smtp.Config)
		kind   error // that of the outbox. nil: the server may be down
		left   int   // messages that the server has nevertheless
	}{
		"no STARTTLS where it is demanded": {func(s *server) { s.tls = nil }, func(c *smtp.Config) { c.TLS = smtp.StartTLS }, nil, 0},
		"a certificate of nobody we know":  {nil, func(c *smtp.Config) { c.Roots = nil }, nil, 0},
		"a wrong password": {
			func(s *server) { s.user = "gatehouse\x00secret" },
			func(c *smtp.Config) { c.Password = secret.New("wrong") }, nil, 0,
		},
		"no AUTH":                {nil, func(c *smtp.Config) { c.Username, c.Password = "gatehouse", secret.New("secret") }, nil, 0},
		"a slow banner":          {say("banner", "silence"), func(c *smtp.Config) { c.Timeout = 300 * time.Millisecond }, nil, 0},
		"silence after the data": {say(".", "silence"), func(c *smtp.Config) { c.Timeout = 3 * time.Second }, nil, 1},
		"a byte a moment":        {say("banner", "drip"), func(c *smtp.Config) { c.Timeout = 300 * time.Millisecond }, nil, 0},
		"4xx banner":             {say("banner", "421 later"), nil, nil, 0},
		"5xx banner":             {say("banner", "554 no"), nil, nil, 0},
		"4xx sender":             {say("MAIL", "451 later"), nil, nil, 0},
		"5xx sender":             {say("MAIL", "550 no"), nil, nil, 0},
		"4xx recipient":          {say("RCPT", "450 ann@example.com is busy"), nil, outbox.ErrAlone, 0},
		"421 to a recipient":     {say("RCPT", "421 overloaded"), nil, nil, 0},
		"5xx recipient":          {say("RCPT", "550 5.1.1 ann@example.com is nobody"), nil, outbox.ErrRefused, 0},
		"5xx data":               {say("DATA", "554 no"), nil, outbox.ErrAlone, 0},
		"5xx after the data":     {say(".", "554 spam from ann@example.com"), nil, outbox.ErrAlone, 1},
		"drop after the data":    {say(".", "drop"), nil, nil, 1},
		"drop at once":           {say("banner", "drop"), nil, nil, 0},
		"no mail server":         {say("banner", "HTTP/1.1 400 Bad Request"), nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.server)
			begin := time.Now()
			err := transport(t, s, tt.config).Deliver(t.Context(), message)
			for _, kind := range []error{outbox.ErrRefused, outbox.ErrAlone} {
				if err == nil || errors.Is(err, kind) != errors.Is(tt.kind, kind) {
					t.Errorf("Deliver = %v, want an error of the kind %v", err, tt.kind)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "ann@") || strings.Contains(err.Error(), "Hallo")) {
				t.Errorf("Deliver = %v, which tells an address or the message", err)
			}
			if took := time.Since(begin); took > 24*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := len(s.taken()); n != tt.left {
				t.Errorf("the server has %d messages, want %d", n, tt.left)
			}
		})
	}
}

func TestCheckFails(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(s *server) { s.say["NOOP"] = "421 not now" })
	if err := transport(t, s, nil).Check(t.Context()); err == nil {
		t.Error("Check of a server that does not want us = nil")
	}
	s.listen.Close()
	if err := transport(t, s, nil).Check(t.Context()); err == nil {
		t.Error("Check without a server = nil")
	}
}

func TestOneRecipient(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	tr := transport(t, s, nil)
	for _, to := range []string{
		"", "a@b,c@d", "a@example.com, c@example.com", "a@example.com\r\nRCPT TO:<c@example.com>", "\"a\r\nBcc:x\"@b",
		"a@example.com\x00", "Ann <a@example.com>", "a@example.com>\r\nDATA",
	} {
		t.Run("attack 239: "+strings.ToValidUTF8(strings.Trim(to, "\x00"), ""), func(t *testing.T) {
			m := message
			m.To = to
			before := len(s.taken())
			if err := tr.Deliver(t.Context(), m); !errors.Is(err, outbox.ErrRefused) {
				t.Errorf("Deliver to %q = %v, want a refusal", to, err)
			}
			if len(s.taken()) != before {
				t.Errorf("a message to %q was handed over", to)
			}
		})
	}
	t.Run("attack 239: line ends in a subject", func(t *testing.T) {
		m := message
		m.Subject = "Hello\r\nBcc: evil@example.com\r\n\r\n<script>"
		if err := tr.Deliver(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		list := s.taken()
		got, err := mail.ReadMessage(strings.NewReader(list[len(list)-1].data))
		if err != nil || got.Header.Get("Bcc") != "" || len(list[len(list)-1].to) != 1 {
			t.Errorf("message = %v, %v, want no other header", got, err)
		}
	})
}

func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]smtp.Config{
		"a timeout of a minute":    {Server: "smtp.example.com:25", From: "a@example.com", Timeout: time.Minute},
		"no server":                {From: "a@example.com"},
		"no port":                  {Server: "smtp.example.com", From: "a@example.com"},
		"port 0":                   {Server: "smtp.example.com:0", From: "a@example.com"},
		"a URL":                    {Server: "smtp://smtp.example.com:25", From: "a@example.com"},
		"no sender":                {Server: "smtp.example.com:25"},
		"no address for answers":   {Server: "smtp.example.com:25", From: "a@example.com", ReplyTo: "the help desk"},
		"two senders":              {Server: "smtp.example.com:25", From: "a@example.com, b@example.com"},
		"a sender with a line end": {Server: "smtp.example.com:25", From: "a@example.com\r\nBcc: b@example.com"},
		"a password without encryption": {
			Server: "smtp.example.com:25", From: "a@example.com", Username: "u",
			Password: secret.New("p"), TLS: smtp.Off,
		},
		"a user without a password": {Server: "smtp.example.com:25", From: "a@example.com", Username: "u"},
		"a password without a user": {Server: "smtp.example.com:25", From: "a@example.com", Password: secret.New("p")},
	} {
		if _, err := smtp.New(c); err == nil {
			t.Errorf("New with %s succeeded", name)
		}
	}
}
