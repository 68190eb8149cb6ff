package sender

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
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
	// What else the JSON of a message says, such as the id of a profile at the service. Default: none.
	Members map[string]string `json:"members,omitempty"`

	hook    *notify.Hook
	from    string
	members map[string]string
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
//		member  <name> <value>
//		timeout <duration>
//	}
func (m *SMSWebhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	if err := m.readHook(d, "sms webhook", &reference.SMSWebhook,
		caddyfileutil.Subdirectives{"from": caddyfileutil.Text(&m.From), "member": m.readMember}); err != nil {
		return err
	}
	return caddyfileutil.Adapt(start, m.build)
}

// readMember reads
//
//	member <name> <value>
func (m *SMSWebhook) readMember(d *caddyfile.Dispenser) error {
	var name, v string
	if !d.Args(&name, &v) || name == "" {
		return d.Err("member: want a name and a value, such as `member messaging_profile_id 40017`")
	}
	if slices.Contains([]string{"to", "text", "from", "id"}, name) {
		return d.Errf("member %s: each message has its own", name)
	}
	if _, ok := m.Members[name]; ok {
		return d.Errf("member %s is already set: keep one of them", name)
	}
	if m.Members == nil {
		m.Members = map[string]string{}
	}
	m.Members[name] = v
	return caddyfileutil.NoMore(d, "member")
}

// Provision resolves the options; it connects to nothing.
func (m *SMSWebhook) Provision(caddy.Context) error {
	return caddyfileutil.Provision(m.build)
}

func (m *SMSWebhook) build(r *caddyfileutil.Resolver) {
	m.hook = m.Hook.build(r, "sms webhook", nil)
	m.from = r.Plain("sms webhook: from", m.From, nil)
	m.members = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Members)) {
		m.members[name] = r.Plain("sms webhook: member "+name, m.Members[name], nil)
	}
}

// SMSTransport implements Texter.
func (m *SMSWebhook) SMSTransport() (notify.SMSTransport, error) {
	return &notify.SMSWebhook{Hook: m.hook, From: m.from, Members: m.members}, nil
}

var (
	_ caddy.Provisioner     = (*SMSWebhook)(nil)
	_ caddyfile.Unmarshaler = (*SMSWebhook)(nil)
	_ Texter                = (*SMSWebhook)(nil)
)
