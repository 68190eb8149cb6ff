package caddymodule

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Hook is what webhooks that take messages for persons have in common.
type Hook struct {
	// Where messages are posted to: https, or http at this machine. Required.
	URL Sensitive `json:"url,omitempty"`
	// Headers that are sent with each message, such as Authorization. Their values are never logged. Default: none.
	Headers map[string]Sensitive `json:"headers,omitempty"`
	// For one exchange, at most 8s. Default: 5s.
	Timeout Duration `json:"timeout,omitempty"`
}

// readHook reads the URL and the block of a webhook: header, timeout and what is more.
func (h *Hook) readHook(d *caddyfile.Dispenser, of string, more subdirectives) error {
	if !d.NextArg() {
		return d.Errf("%s: the URL is missing: add for example `%s https://example.com/send`", of, of)
	}
	h.URL = Sensitive(d.Val())
	if err := check(d, of, d.Val(), notify.CheckHookURL); err != nil {
		return err
	}
	if d.NextArg() {
		return d.Errf("%s: unexpected argument, its options stand in a block", of)
	}
	known := subdirectives{"header": {parse: h.readHeader, repeats: true}, "timeout": value(&h.Timeout, checkDuration)}
	maps.Copy(known, more)
	return readBlock(d, of, known)
}

// readHeader reads
//
//	header <name> <value>...
func (h *Hook) readHeader(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("header: want a name and a value, such as `header Authorization {env.SMS_TOKEN}`")
	}
	name, v := http.CanonicalHeaderKey(args[0]), strings.Join(args[1:], " ")
	probe := v
	if hasPlaceholder(v) {
		probe = standInSecret
	}
	if err := notify.CheckHookHeader(name, probe); err != nil {
		return d.WrapErr(err)
	}
	if _, ok := h.Headers[name]; ok {
		return d.Errf("header %s is already set: keep one of them", name)
	}
	if h.Headers == nil {
		h.Headers = map[string]Sensitive{}
	}
	h.Headers[name] = Sensitive(v)
	return noMore(d, "header")
}

// build resolves the options and says all that is wrong with them. It returns nil then.
func (h *Hook) build(r *resolver, of string, key []byte) *notify.Hook {
	standIn := func(v Sensitive, option, placeholder string, check func(string) error) string {
		if r.adapting() && hasPlaceholder(string(v)) {
			return placeholder
		}
		return r.plain(of+": "+option, string(v), check)
	}
	before := len(r.problems)
	if h.URL == "" {
		r.fail("%s: url is missing", of)
		return nil
	}
	cfg := notify.HookConfig{URL: standIn(h.URL, "url", standInURI, notify.CheckHookURL), Header: http.Header{}, Key: key, Timeout: r.duration(of+": timeout", h.Timeout)}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		v := standIn(h.Headers[name], "header "+name, standInSecret, nil)
		if err := notify.CheckHookHeader(name, v); err != nil && (v != "" || h.Headers[name] == "") {
			r.fail("%s: %v", of, err)
		}
		cfg.Header[name] = []string{v}
	}
	if len(r.problems) > before {
		return nil
	}
	hook, err := notify.NewHook(cfg)
	if err != nil {
		r.fail("%s: %v", of, err)
	}
	return hook
}

// signingKey resolves a secret that signs what is posted. nil: there is none.
func signingKey(r *resolver, option string, v Sensitive) []byte {
	text := string(v)
	if r.adapting() && hasPlaceholder(text) {
		text = standInSecret
	}
	if text = r.plain(option, text, checkWebhookSecret); text == "" {
		return nil
	}
	key, err := notify.WebhookConfig{Secret: secret.New(text)}.Key()
	if err != nil {
		r.fail("%s: %v", option, err)
	}
	return key
}

// outgoing is what sends from an outbox while the instance runs.
type outgoing interface {
	Run(ctx context.Context)
	Waiting(ctx context.Context, most int) (int, error)
	Check(ctx context.Context) error
}

// checkSenders asks whoever messages are handed to.
func (i *instance) checkSenders(ctx context.Context, answer *checkAnswer) error {
	for _, c := range []struct {
		there   bool
		sender  outgoing
		said    *string
		waiting *int
		name    string
	}{
		{i.mail != nil, i.mail, &answer.Mail, &answer.MailWaiting, "mail server"},
		{i.texts != nil, i.texts, &answer.SMS, &answer.SMSWaiting, "service for text messages"},
		{i.pushes != nil, i.pushes, &answer.Push, &answer.PushWaiting, "service for prompts"},
	} {
		if !c.there {
			continue
		}
		var err error
		if *c.said, *c.waiting, err = checkOutgoing(ctx, c.sender); err != nil {
			return err
		}
		if *c.said != "ok" && answer.Error == "" {
			answer.Error = "the " + c.name + ": " + *c.said
		}
	}
	return nil
}

// checkOutgoing says whether who is sent to takes us and how much waits: ok, or what is wrong.
func checkOutgoing(ctx context.Context, o outgoing) (said string, waiting int, err error) {
	if waiting, err = o.Waiting(ctx, maxCounted); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, mailCheckTimeout)
	defer cancel()
	if err := o.Check(ctx); err != nil {
		return err.Error(), waiting, nil
	}
	return "ok", waiting, nil
}
