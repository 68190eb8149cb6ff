package caddymodule

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/sender"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// loadGuest returns the guest module in a field of the app, which delivers messages. The zero value: none is
// configured.
func loadGuest[T any](a *App, option, field string, raw json.RawMessage) (m T, err error) {
	if raw == nil {
		return m, nil
	}
	mod, err := a.ctx.LoadModule(a, field)
	if err != nil {
		return m, fmt.Errorf("gatehouse: %s: %w", option, err)
	}
	m, ok := mod.(T)
	if !ok {
		return m, fmt.Errorf("gatehouse: %s module %T delivers nothing", option, mod)
	}
	return m, nil
}

// openSender returns what sends messages through a guest module, or nil where none is configured. transport gets the
// transport from the module.
func openSender[M comparable, T, S any](option string, m M, transport func(M) (T, error), sender func(T) (*S, error)) (*S, error) {
	if m == *new(M) {
		return nil, nil //nolint:nilnil // none is configured
	}
	t, err := transport(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return sender(t)
}

// senderDeps are the dependencies of a sender.
func senderDeps[T any](a *App, c *shared.Core, pages *web.Renderer, option string, t T) notify.Deps[T] {
	return notify.Deps[T]{Store: c.Store, Keyring: c.Keyring, Transport: t, Words: pages.Words, Log: a.log.Named(option)}
}

// readGuest reads a guest module of the namespace gatehouse.<option>:
//
//	<option> <module> [<arguments of the module>...] [{ ... }]
//
// builtIn is the module that comes with Gatehouse, example an option that names it.
func readGuest(d *caddyfile.Dispenser, option, builtIn, example string) (json.RawMessage, error) {
	if !d.NextArg() {
		return nil, d.Errf("%s: the module is missing: add for example `%s`", option, example)
	}
	name := d.Val()
	id := "gatehouse." + option + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("%s: module %s is not built in: use %s", option, id, builtIn)
	}
	mod, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	return caddyconfig.JSONModuleObject(mod, "module", name, nil), nil
}

// readMail reads
//
//	mail <module> [<arguments of the module>...] [{ ... }]
func (a *App) readMail(d *caddyfile.Dispenser) (err error) {
	a.MailRaw, err = readGuest(d, "mail", "smtp", "mail smtp smtp.example.com:587")
	return err
}

// loadMail loads the module that delivers e-mails, if one is configured.
func (a *App) loadMail() (err error) {
	a.mailer, err = loadGuest[sender.Mailer](a, "mail", "MailRaw", a.MailRaw)
	return err
}

// openMail returns what sends e-mails, or nil where no mail is configured.
func (a *App) openMail(c *shared.Core, pages *web.Renderer) (*notify.Mail, error) {
	transport := func(m sender.Mailer) (notify.Transport, error) { return m.Transport(a.issuer.Hostname()) }
	return openSender("mail", a.mailer, transport, func(t notify.Transport) (*notify.Mail, error) {
		cfg := mailConfig(a, pages)
		cfg.Tried = c.Metrics.Mailed
		return notify.NewMail(cfg, senderDeps(a, c, pages, "mail", t))
	})
}

// mailConfig says how e-mails look.
func mailConfig(a *App, pages *web.Renderer) notify.MailConfig {
	ground, ink := pages.Button()
	return notify.MailConfig{Issuer: a.issuer.String(), Brand: pages.BrandName(), Ground: ground, Ink: ink}
}

// smsConfig says how text messages look.
func smsConfig(a *App, pages *web.Renderer) notify.SMSConfig {
	return notify.SMSConfig{Issuer: a.issuer.String(), Brand: pages.BrandName()}
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
	a.texter, err = loadGuest[sender.Texter](a, "sms", "SMSRaw", a.SMSRaw)
	return err
}

// openSMS returns what sends text messages, or nil where none is configured.
func (a *App) openSMS(c *shared.Core, pages *web.Renderer) (*notify.Texts, error) {
	return openSender("sms", a.texter, sender.Texter.SMSTransport, func(t notify.SMSTransport) (*notify.Texts, error) {
		cfg := smsConfig(a, pages)
		cfg.Tried = c.Metrics.Texted
		return notify.NewTexts(cfg, senderDeps(a, c, pages, "sms", t))
	})
}

// readPush reads
//
//	push <module> [<arguments of the module>...] [{ ... }]
func (a *App) readPush(d *caddyfile.Dispenser) (err error) {
	a.PushRaw, err = readGuest(d, "push", "webhook", "push webhook https://push.example.com/send")
	return err
}

// loadPush loads the module that delivers prompts, if one is configured.
func (a *App) loadPush() (err error) {
	a.pusher, err = loadGuest[sender.Pusher](a, "push", "PushRaw", a.PushRaw)
	return err
}

// openPush returns what sends prompts, or nil where none is configured.
func (a *App) openPush(c *shared.Core, pages *web.Renderer) (*notify.Pushes, error) {
	return openSender("push", a.pusher, sender.Pusher.PushTransport, func(t notify.PushTransport) (*notify.Pushes, error) {
		return notify.NewPushes(notify.PushConfig{Issuer: a.issuer.String(), Brand: pages.BrandName(), Tried: c.Metrics.Pushed},
			senderDeps(a, c, pages, "push", t)), nil
	})
}
