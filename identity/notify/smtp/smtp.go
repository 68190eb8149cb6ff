// Package smtp hands e-mails over to a mail server.
package smtp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// How the connection is encrypted.
const (
	StartTLS = "starttls" // RFC 3207; a server that does not offer it gets nothing
	Implicit = "implicit" // RFC 8314 3
	Off      = "off"
)

// Config names the server and the account.
type Config struct {
	Server   string // host:port
	From     string // such as Gatehouse <no-reply@example.com>
	ReplyTo  string // where answers go, as From is written; empty: to From
	Username string // empty: without authentication
	Password secret.String
	// TLS is one of the constants. Default: Implicit at port 465, otherwise StartTLS; on a loopback host without a
	// username: STARTTLS if the server offers it.
	TLS string
	// Timeout is for one exchange as a whole, 25s at the most. Default: 20s.
	Timeout time.Duration
	// Helo is the name of this host in the greeting. Default: the name of the machine.
	Helo string
	// Roots are the certificates that are trusted. Default: those of the system.
	Roots *x509.CertPool
}

const (
	defaultTimeout = 20 * time.Second
	maxTimeout     = 25 * time.Second // shorter than the 30 seconds after which a message is tried again
)

// Transport implements notify.Transport.
type Transport struct {
	cfg     Config
	host    string
	port    int
	from    *mail.Address
	answers *mail.Address // nil: to from
}

// New returns a transport, or what is wrong with the configuration. It makes no connection.
func New(c Config) (*Transport, error) {
	t := &Transport{cfg: c}
	var errs []error
	var err error
	if t.host, t.port, err = parseServer(c.Server); err != nil {
		errs = append(errs, err)
	}
	if t.from, err = parseFrom(c.From); err != nil {
		errs = append(errs, fmt.Errorf("from: %w", err))
	}
	if c.ReplyTo != "" {
		if t.answers, err = parseFrom(c.ReplyTo); err != nil {
			errs = append(errs, fmt.Errorf("reply_to: %w", err))
		}
	}
	if t.cfg.TLS == "" && t.port == 465 {
		t.cfg.TLS = Implicit
	}
	if t.cfg.TLS == "" && (!loopback.Is(t.host) || c.Username != "") {
		t.cfg.TLS = StartTLS
	}
	if t.cfg.TLS == Off && c.Username != "" {
		errs = append(errs, errors.New("username: a password needs tls starttls or tls implicit"))
	}
	if (c.Username == "") != c.Password.IsZero() {
		errs = append(errs, errors.New("username and password belong together: set both"))
	}
	if t.cfg.Timeout == 0 {
		t.cfg.Timeout = defaultTimeout
	}
	if t.cfg.Timeout < 0 || t.cfg.Timeout > maxTimeout {
		errs = append(errs, fmt.Errorf("timeout: at most %v", maxTimeout))
	}
	return t, errors.Join(errs...)
}

// CheckServer returns what is wrong with host:port.
func CheckServer(s string) error {
	_, _, err := parseServer(s)
	return err
}

func parseServer(s string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 1 || port > 65535 || strings.ContainsAny(host, "/@ ") {
		return "", 0, errors.New("want host and port such as smtp.example.com:587")
	}
	return host, port, nil
}

// CheckFrom returns what is wrong with a sender.
func CheckFrom(s string) error {
	_, err := parseFrom(s)
	return err
}

func parseFrom(s string) (*mail.Address, error) {
	if a, err := mail.ParseAddress(s); err == nil && !strings.ContainsAny(a.Name+a.Address, "\r\n\x00") {
		return a, nil
	}
	return nil, errors.New("want an address such as no-reply@example.com or \"Gatehouse <no-reply@example.com>\"")
}

// Deliver implements notify.Transport.
func (t *Transport) Deliver(ctx context.Context, m notify.Message) error {
	msg, err := t.message(m)
	if err != nil {
		return fmt.Errorf("%w: %w", err, outbox.ErrRefused)
	}
	return t.session(ctx, func(c *gomail.Client, s *session) error {
		err := c.SendWithSMTPClient(s.Client, msg)
		failed := new(gomail.SendError)
		// RFC 5321 4.2.1: 5yz is permanent. For the recipient it concerns the address; any other may be a mistake in
		// the configuration, which can be corrected.
		if errors.As(err, &failed) && failed.Reason == gomail.ErrSMTPRcptTo && failed.ErrorCode() >= 500 {
			return fmt.Errorf("the server knows no such recipient (%d): %w", failed.ErrorCode(), outbox.ErrRefused)
		}
		if failed.ErrorCode() > 0 && failed.ErrorCode() != serviceNotAvailable && slices.Contains(ofOneMessage, failed.Reason) {
			return fmt.Errorf("%w: %w", say(err), outbox.ErrAlone)
		}
		return say(err)
	})
}

// ofOneMessage are the refusals that another message may not meet: they are about the recipient or the content, which a
// server can also judge at the end.
var ofOneMessage = []gomail.SendErrReason{gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose}

const serviceNotAvailable = 421 // RFC 5321 3.8: the server closes the connection, whatever it was asked

// Check implements notify.Transport.
func (t *Transport) Check(ctx context.Context) error {
	return t.session(ctx, func(_ *gomail.Client, s *session) error { return say(s.Noop()) })
}

// message makes the e-mail: text and HTML, one recipient, and marked as automatic. (RFC 3834 5)
func (t *Transport) message(m notify.Message) (*gomail.Msg, error) {
	if !notify.IsAddress(m.To) {
		return nil, errors.New("not one recipient")
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(t.from)
	if t.answers != nil {
		msg.ReplyToMailAddress(t.answers)
	}
	msg.SetAddrHeaderFromMailAddress(gomail.HeaderTo, &mail.Address{Address: m.To})
	msg.Subject(m.Subject)
	msg.SetMessageIDWithValue(m.ID)
	msg.SetDateWithValue(m.Date)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	return msg, nil
}
