package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strconv"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// session is an authenticated connection to the server.
type session struct {
	*smtp.Client
}

// session connects, calls fn and quits, all of it within the timeout.
func (t *Transport) session(ctx context.Context, fn func(*gomail.Client, *session) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.cfg.Timeout, errors.New("the mail server took too long"))
	defer cancel()
	c, err := gomail.NewClient(t.host, t.options(ctx)...)
	if err != nil {
		return err
	}
	client, err := c.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return t.timely(ctx, fmt.Errorf("connect to the mail server: %w", say(err)))
	}
	defer client.Close() //nolint:errcheck // what the server has taken it has
	// The library's own deadline began with the connection; ours ends it before.
	if err := client.UpdateDeadline(2 * t.cfg.Timeout); err != nil {
		return err
	}
	if err := fn(c, &session{client}); err != nil {
		return t.timely(ctx, err)
	}
	_ = client.Quit() // RFC 5321 4.1.1.10; a server that is gone already has the message nevertheless
	return nil
}

// timely returns the error of the timeout if that was the cause.
func (t *Transport) timely(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (t *Transport) options(session context.Context) []gomail.Option {
	encrypted := &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12, RootCAs: t.cfg.Roots}
	opts := []gomail.Option{
		gomail.WithPort(t.port), gomail.WithTimeout(t.cfg.Timeout), gomail.WithTLSConfig(encrypted), gomail.WithoutNoop(), gomail.WithoutRset(),
	}
	switch t.cfg.TLS {
	case StartTLS:
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case Implicit:
		opts = append(opts, gomail.WithSSL())
	case Off:
		opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
	default: // a loopback host
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	}
	if t.cfg.Helo != "" {
		opts = append(opts, gomail.WithHELO(t.cfg.Helo))
	}
	if t.cfg.Username != "" { // New demands encryption then, so PLAIN is one of the mechanisms
		opts = append(opts, gomail.WithUsername(t.cfg.Username), gomail.WithPassword(t.cfg.Password.Reveal()),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
	return append(opts, gomail.WithDialContextFunc(t.dial(session, encrypted)))
}

// dial returns a function that connects. The connection ends with the session, even if the server says nothing, or one
// byte a second.
func (t *Transport) dial(session context.Context, encrypted *tls.Config) gomail.DialContextFunc {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		dialer := &net.Dialer{Timeout: t.cfg.Timeout}
		if t.cfg.TLS == Implicit {
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: encrypted}).DialContext(ctx, network, address)
		} else {
			conn, err = dialer.DialContext(ctx, network, address)
		}
		if err == nil {
			context.AfterFunc(session, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

// say returns an error for the log: without the text of the server, which may repeat an address or a message.
func say(err error) error {
	failed, answer := new(gomail.SendError), new(textproto.Error)
	switch {
	case errors.As(err, &failed) && failed.ErrorCode() > 0:
		return errors.New("the mail server refuses the message, status " + strconv.Itoa(failed.ErrorCode()))
	case errors.As(err, &failed):
		return errors.New("the mail server has gone while it was given the message")
	case errors.As(err, &answer):
		return errors.New("the mail server answers " + strconv.Itoa(answer.Code))
	}
	return err
}
