package sender

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Hook are the common options of the webhooks for messages.
type Hook struct {
	// Where messages are posted to: https, or http at this machine. Required.
	URL caddyfileutil.Sensitive `json:"url,omitempty"`
	// Headers that are sent with each message, such as Authorization. Their values are never logged. Default: none.
	Headers map[string]caddyfileutil.Sensitive `json:"headers,omitempty"`
	// For one exchange, at most 8s. Default: 5s.
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`
}

// readHook reads the URL and the block of a webhook: header, timeout, and the words of more.
func (h *Hook) readHook(d *caddyfile.Dispenser, of string, block *reference.Block, more caddyfileutil.Subdirectives) error {
	if !d.NextArg() {
		return d.Errf("%s: the URL is missing: add for example `%s https://example.com/send`", of, of)
	}
	h.URL = caddyfileutil.Sensitive(d.Val())
	if err := caddyfileutil.Check(d, of, d.Val(), notify.CheckHookURL); err != nil {
		return err
	}
	if d.NextArg() {
		return d.Errf("%s: unexpected argument, its options belong in a block", of)
	}
	known := caddyfileutil.Subdirectives{"header": h.readHeader, "timeout": caddyfileutil.Value(&h.Timeout, caddyfileutil.CheckDuration)}
	maps.Copy(known, more)
	return caddyfileutil.ReadBlock(d, of, block, known)
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
	if caddyfileutil.HasPlaceholder(v) {
		probe = caddyfileutil.StandInSecret
	}
	if err := notify.CheckHookHeader(name, probe); err != nil {
		return d.WrapErr(err)
	}
	if _, ok := h.Headers[name]; ok {
		return d.Errf("header %s is already set: keep one of them", name)
	}
	if h.Headers == nil {
		h.Headers = map[string]caddyfileutil.Sensitive{}
	}
	h.Headers[name] = caddyfileutil.Sensitive(v)
	return caddyfileutil.NoMore(d, "header")
}

// build resolves the options and reports all of their problems. It returns nil if there are any.
func (h *Hook) build(r *caddyfileutil.Resolver, of string, key []byte) *notify.Hook {
	standIn := func(v caddyfileutil.Sensitive, option, placeholder string, check func(string) error) string {
		if r.Adapting() && caddyfileutil.HasPlaceholder(string(v)) {
			return placeholder
		}
		return r.Plain(of+": "+option, string(v), check)
	}
	before := r.ProblemCount()
	if h.URL == "" {
		r.Fail("%s: url is missing", of)
		return nil
	}
	cfg := notify.HookConfig{
		URL: standIn(h.URL, "url", caddyfileutil.StandInURI, notify.CheckHookURL), Header: http.Header{}, Key: key,
		Timeout: r.Duration(of+": timeout", h.Timeout),
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		v := standIn(h.Headers[name], "header "+name, caddyfileutil.StandInSecret, nil)
		if err := notify.CheckHookHeader(name, v); err != nil && (v != "" || h.Headers[name] == "") {
			r.Fail("%s: %v", of, err)
		}
		cfg.Header[name] = []string{v}
	}
	if r.ProblemCount() > before {
		return nil
	}
	hook, err := notify.NewHook(cfg)
	if err != nil {
		r.Fail("%s: %v", of, err)
	}
	return hook
}

// signingKey resolves the secret that signs each message. nil: none is set.
func signingKey(r *caddyfileutil.Resolver, option string, v caddyfileutil.Sensitive) []byte {
	text := string(v)
	if r.Adapting() && caddyfileutil.HasPlaceholder(text) {
		text = caddyfileutil.StandInSecret
	}
	if text = r.Plain(option, text, CheckSecret); text == "" {
		return nil
	}
	key, err := notify.WebhookConfig{Secret: secret.New(text)}.Key()
	if err != nil {
		r.Fail("%s: %v", option, err)
	}
	return key
}

// CheckSecret checks a secret that signs what is posted, as Standard Webhooks says.
func CheckSecret(s string) error {
	if err := caddyfileutil.CheckSecret(s); err != nil {
		return err
	}
	_, err := notify.WebhookConfig{Secret: secret.New(s)}.Key()
	return err
}
