package sender

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/notify"
)

func init() {
	caddy.RegisterModule(PushWebhook{})
}

// Pusher is a guest module of the namespace gatehouse.push. Another package can add one.
type Pusher interface {
	// PushTransport returns what delivers prompts. It opens no connection.
	PushTransport() (notify.PushTransport, error)
}

// PushWebhook passes prompts to a service, by a POST of JSON with the members id, person, device, title, text and
// approve_url.
type PushWebhook struct {
	Hook
	// The key that signs what is posted, as Standard Webhooks says. Required, at least 32 characters.
	Secret caddyfileutil.Sensitive `json:"secret,omitempty"`

	hook *notify.Hook
}

// CaddyModule implements caddy.Module.
func (PushWebhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.push.webhook", New: func() caddy.Module { return new(PushWebhook) }}
}

// UnmarshalCaddyfile reads
//
//	push webhook <url> {
//		secret  <secret>
//		header  <name> <value>...
//		timeout <duration>
//	}
func (m *PushWebhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	if err := m.readHook(d, "push webhook", &reference.PushWebhook,
		caddyfileutil.Subdirectives{"secret": caddyfileutil.Value(&m.Secret, CheckSecret)}); err != nil {
		return err
	}
	return caddyfileutil.Adapt(start, m.build)
}

// Provision resolves the options; it connects to nothing.
func (m *PushWebhook) Provision(caddy.Context) error {
	return caddyfileutil.Provision(m.build)
}

func (m *PushWebhook) build(r *caddyfileutil.Resolver) {
	if m.Secret == "" {
		r.Fail("push webhook: secret is missing: it signs the messages")
		return
	}
	m.hook = m.Hook.build(r, "push webhook", signingKey(r, "push webhook: secret", m.Secret))
}

// PushTransport implements Pusher.
func (m *PushWebhook) PushTransport() (notify.PushTransport, error) {
	return &notify.PushWebhook{Hook: m.hook}, nil
}

var (
	_ caddy.Provisioner     = (*PushWebhook)(nil)
	_ caddyfile.Unmarshaler = (*PushWebhook)(nil)
	_ Pusher                = (*PushWebhook)(nil)
)
