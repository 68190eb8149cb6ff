// Package sender has the Caddy modules that deliver e-mails, text messages and prompts. identity/notify decides what is
// sent.
package sender

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/smtp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func init() {
	caddy.RegisterModule(SMTPMail{})
}

// Mailer is a guest module of the namespace gatehouse.mail. Another package can add one.
type Mailer interface {
	// Transport returns what delivers e-mails. It opens no connection. issuer is the host that mail comes from.
	Transport(issuer string) (notify.Transport, error)
}

// SMTPMail delivers e-mails to a mail server, by SMTP.
type SMTPMail struct {
	// Host and port of the mail server. Required.
	Server string `json:"server,omitempty"`
	// The sender of mail, such as Gatehouse <no-reply@example.com>. Required.
	From string `json:"from,omitempty"`
	// Where answers to mail go, as from is written. Default: to from.
	ReplyTo string `json:"reply_to,omitempty"`
	// The user of the mail server. Default: none, and no authentication.
	Username string `json:"username,omitempty"`
	// The user's password. Default: none.
	Password caddyfileutil.Sensitive `json:"password,omitempty"`
	// How the connection is encrypted: starttls, implicit or off. Default: implicit at port 465, otherwise starttls,
	// which is demanded; on a loopback host without username: as the server offers it.
	TLS string `json:"tls,omitempty"`
	// For one message from the connection to the end, at most 25s. Default: 20s.
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`

	cfg smtp.Config
}

// CaddyModule implements caddy.Module.
func (SMTPMail) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.mail.smtp", New: func() caddy.Module { return new(SMTPMail) }}
}

// UnmarshalCaddyfile reads
//
//	mail smtp <host:port> {
//		from     <address>
//		reply_to <address>
//		username <name>
//		password <password>
//		tls      starttls|implicit|off
//		timeout  <duration>
//	}
func (m *SMTPMail) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	if !d.NextArg() {
		return d.Err("mail smtp: the server is missing: add for example `mail smtp smtp.example.com:587`")
	}
	m.Server = d.Val()
	if err := caddyfileutil.Check(d, "mail smtp", m.Server, smtp.CheckServer); err != nil {
		return err
	}
	err := caddyfileutil.ReadOptions(d, "mail smtp", &reference.SMTP, caddyfileutil.Subdirectives{
		"from":     caddyfileutil.Text(&m.From),
		"reply_to": caddyfileutil.Text(&m.ReplyTo),
		"username": caddyfileutil.Value(&m.Username, nil),
		"password": caddyfileutil.Value(&m.Password, nil),
		"tls":      caddyfileutil.Value(&m.TLS, caddyfileutil.OneOf(smtp.StartTLS, smtp.Implicit, smtp.Off)),
		"timeout":  caddyfileutil.Value(&m.Timeout, caddyfileutil.CheckDuration),
	})
	if err != nil {
		return err
	}
	return caddyfileutil.Adapt(start, m.build)
}

// Provision resolves the options; it connects to nothing.
func (m *SMTPMail) Provision(caddy.Context) error {
	return caddyfileutil.Provision(m.build)
}

// build resolves the options and reports all of their problems.
func (m *SMTPMail) build(r *caddyfileutil.Resolver) {
	standIn := func(v, option, placeholder string, check func(string) error) string {
		if r.Adapting() && caddyfileutil.HasPlaceholder(v) {
			return placeholder
		}
		return r.Plain("mail smtp: "+option, v, check)
	}
	before := r.ProblemCount()
	m.cfg = smtp.Config{
		Server:   standIn(m.Server, "server", "placeholder.invalid:587", smtp.CheckServer),
		From:     standIn(m.From, "from", "placeholder@placeholder.invalid", smtp.CheckFrom),
		ReplyTo:  standIn(m.ReplyTo, "reply_to", "placeholder@placeholder.invalid", smtp.CheckFrom),
		Username: standIn(m.Username, "username", "placeholder", nil),
		Password: secret.New(standIn(string(m.Password), "password", caddyfileutil.StandInSecret, nil)),
		TLS:      standIn(m.TLS, "tls", "", caddyfileutil.OneOf(smtp.StartTLS, smtp.Implicit, smtp.Off)),
		Timeout:  r.Duration("mail smtp: timeout", m.Timeout),
	}
	switch {
	case m.Server == "":
		r.Fail("mail smtp: server is missing: add for example smtp.example.com:587")
	case m.From == "":
		r.Fail("mail smtp: from is missing: add for example `from no-reply@example.com`")
	case r.ProblemCount() == before:
		if _, err := smtp.New(m.cfg); err != nil {
			r.Fail("mail smtp: %v", err)
		}
	}
}

// Transport implements Mailer.
func (m *SMTPMail) Transport(issuer string) (notify.Transport, error) {
	cfg := m.cfg
	cfg.Helo = issuer
	return smtp.New(cfg)
}

var (
	_ caddy.Provisioner     = (*SMTPMail)(nil)
	_ caddyfile.Unmarshaler = (*SMTPMail)(nil)
	_ Mailer                = (*SMTPMail)(nil)
)
