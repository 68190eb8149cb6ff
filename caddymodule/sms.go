package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

func init() {
	caddy.RegisterModule(SMSWebhook{})
}

// smsNamespace holds the modules that deliver text messages. Another package can add one.
const smsNamespace = "gatehouse.sms"

// Texter is a guest module of the namespace gatehouse.sms.
type Texter interface {
	// SMSTransport returns what delivers text messages. It opens no connection.
	SMSTransport() (notify.SMSTransport, error)
}

// SMSWebhook passes text messages to a service, by a POST of JSON with the members to, text, from and id.
type SMSWebhook struct {
	Hook
	// The sender that is shown. Default: none is sent, and the service shows its own.
	From string `json:"from,omitempty"`

	hook *notify.Hook
	from string
}

// CaddyModule implements caddy.Module.
func (SMSWebhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: smsNamespace + ".webhook", New: func() caddy.Module { return new(SMSWebhook) }}
}

// UnmarshalCaddyfile reads
//
//	sms webhook <url> {
//		header  <name> <value>...
//		from    <sender>
//		timeout <duration>
//	}
func (m *SMSWebhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	if err := m.readHook(d, "sms webhook", &reference.SMSWebhook, options.Subdirectives{"from": options.Text(&m.From)}); err != nil {
		return err
	}
	return options.Adapt(start, m.build)
}

// Provision resolves the options; it connects to nothing.
func (m *SMSWebhook) Provision(caddy.Context) error {
	return options.Provision(m.build)
}

func (m *SMSWebhook) build(r *options.Resolver) {
	m.hook = m.Hook.build(r, "sms webhook", nil)
	m.from = r.Plain("sms webhook: from", m.From, nil)
}

// SMSTransport implements Texter.
func (m *SMSWebhook) SMSTransport() (notify.SMSTransport, error) {
	return &notify.SMSWebhook{Hook: m.hook, From: m.from}, nil
}

// readSMS reads
//
//	sms <module> [<arguments of the module>...] [{ ... }]
func (a *App) readSMS(d *caddyfile.Dispenser) (err error) {
	a.SMSRaw, err = readGuest(d, "sms", "webhook", "sms webhook https://sms.example.com/send")
	return err
}

// loadSMS loads the module that delivers text messages, if one is configured.
func (a *App) loadSMS() (err error) {
	a.texter, err = loadGuest[Texter](a, "sms", "SMSRaw", a.SMSRaw)
	return err
}

// openSMS returns what sends text messages, or nil where none is configured.
func (a *App) openSMS(c *core, pages *page.Renderer) (*notify.Texts, error) {
	return openSender("sms", a.texter, Texter.SMSTransport, func(t notify.SMSTransport) (*notify.Texts, error) {
		return notify.NewTexts(notify.SMSConfig{Issuer: a.issuer.String(), Brand: pages.BrandName(), Tried: c.metrics.texted}, senderDeps(a, c, pages, "sms", t))
	})
}

var (
	_ caddy.Provisioner     = (*SMSWebhook)(nil)
	_ caddyfile.Unmarshaler = (*SMSWebhook)(nil)
	_ Texter                = (*SMSWebhook)(nil)
)
