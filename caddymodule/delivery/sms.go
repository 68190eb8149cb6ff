package delivery

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/notify"
)

func init() {
	caddy.RegisterModule(SMSWebhook{})
}

// Texter is a guest module of the namespace gatehouse.sms. Another package can add one.
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
	return caddy.ModuleInfo{ID: "gatehouse.sms.webhook", New: func() caddy.Module { return new(SMSWebhook) }}
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

var (
	_ caddy.Provisioner     = (*SMSWebhook)(nil)
	_ caddyfile.Unmarshaler = (*SMSWebhook)(nil)
	_ Texter                = (*SMSWebhook)(nil)
)
