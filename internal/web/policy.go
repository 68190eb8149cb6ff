package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// headers sets the headers that every page carries.
func (p *Renderer) headers(h http.Header, v View, scripts *scriptSet) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy(v, scripts))
	if d, ok := v.Data.(SignedOut); ok && d.GoOn && d.ContinueURL() != "" {
		h.Set("Refresh", frameSeconds+"; url="+d.Continue)
	}
	if d, ok := v.Data.(SigningOut); ok {
		h.Set("Refresh", signingSeconds+"; url="+LocalPath(d.End))
	}
	if d, ok := v.Data.(Push); ok && d.Refresh {
		h.Set("Refresh", pushSeconds)
	}
	if d, ok := v.Data.(Console); ok && d.Refresh > 0 && d.Live == "" { // see Reload
		h.Set("Refresh", strconv.Itoa(d.Refresh))
	}
	if d, ok := v.Data.(Trouble); ok && d.Next != "" {
		h.Set("Refresh", "0; url="+LocalPath(d.Next))
	}
	if d, ok := v.Data.(Forward); ok && !d.Last {
		h.Set("Refresh", "0; url="+LocalPath(d.To))
	}
	h.Set("X-Frame-Options", "DENY") // RFC 7034, for browsers without frame-ancestors
	if d, ok := v.Data.(FormPost); ok && d.Framed {
		h.Set("X-Frame-Options", "SAMEORIGIN")
	}
	h.Set("Permissions-Policy", permissions)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if v.Client.ID == "" && len(v.Client.Targets) == 0 {
		// An application can sign people in by a window of its own, which this would cut off from it.
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	HoldToHTTPS(h, p.origin)
	h.Set("Referrer-Policy", p.referrer)
	if d, ok := v.Data.(Form); ok && d.Onward {
		h.Set("Referrer-Policy", "same-origin") // otherwise Origin would be null
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Language, Cookie")
}

// permissions are the features of a browser that pages use, and those that no page uses.
const permissions = "publickey-credentials-create=(self), publickey-credentials-get=(self), clipboard-write=(self), " +
	"accelerometer=(), autoplay=(), camera=(), display-capture=(), fullscreen=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), " +
	"payment=(), screen-wake-lock=(), usb=(), xr-spatial-tracking=()"

// HoldToHTTPS sets Strict-Transport-Security on an answer of an https origin, unless the operator has set another
// value. Browsers would apply it to every port of localhost, so loopback hosts do not get it. (RFC 6797 7.1)
func HoldToHTTPS(h http.Header, origin string) {
	host, ok := strings.CutPrefix(origin, "https://")
	if !ok || len(h["Strict-Transport-Security"]) > 0 {
		return
	}
	if strings.Contains(host, ":") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	if !loopback.Is(host) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// policy is the Content-Security-Policy. Browsers apply form-action to the redirects that follow a POST, so it must
// name the places where the flow ends.
func policy(v View, scripts *scriptSet) string {
	actions, more, ancestors := []string{"'self'"}, "", "'none'"
	if scripts.any() {
		more = " script-src 'self';"
	}
	if d, ok := v.Data.(Console); ok && d.Live != "" {
		more += " connect-src 'self';"
	}
	for _, t := range v.Client.Targets {
		if isTarget(t) && !slices.Contains(actions, t) {
			actions = append(actions, t)
		}
	}
	switch d := v.Data.(type) {
	case FormPost:
		actions = []string{formTarget(d.Action)}
		if scheme, _, ok := strings.Cut(actions[0], "://"); ok && d.Away {
			actions = []string{scheme + ":"} // browsers apply form-action to what the provider redirects to
		}
		more = " script-src '" + submitHash + "';"
		if d.Framed {
			ancestors = "'self'"
		}
	case failure:
		if len(d.Onward.Fields) > 0 {
			actions = append(actions, formTarget(d.Onward.Address))
		}
	case Form:
		if d.Onward {
			actions = append(actions, "http:", "https:")
		}
	case Console:
		if d.framed() {
			more += " frame-src 'self';"
		}
	case SigningOut:
		more = " frame-src 'self' http: https:;" // applications can have any number of addresses between them and the way back
	case SignedOut:
		if hosts := frameHosts(d.Frames); len(hosts) > 0 {
			more = " frame-src " + strings.Join(hosts, " ") + ";"
		}
	}
	return "default-src 'none';" + more + " style-src 'self'; font-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors " +
		ancestors + "; form-action " +
		strings.Join(actions, " ")
}

// frameHosts are the origins of the frames, as a policy names them.
func frameHosts(frames []string) (hosts []string) {
	for _, f := range frames {
		u, err := url.Parse(f)
		if err != nil {
			continue
		}
		if host := u.Scheme + "://" + u.Host; isTarget(host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// submitScript is on the page of FormPost only and is allowed by its hash. All other scripts are our own files.
const submitScript = "document.forms[0].submit()"

var submitHash = func() string {
	sum := sha256.Sum256([]byte(submitScript))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// IsFormTarget reports whether a policy can name the URI as the only target of a form: http or https, and a host that
// is a name or an IPv4 address, because source expressions allow no other. (Content Security Policy Level 3 2.3.1)
func IsFormTarget(uri string) bool { return formTarget(uri) != "'none'" }

// formTarget is the source expression of exactly this URI, without its query, or 'none'.
func formTarget(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || !isTarget(u.Scheme+"://"+u.Host) || strings.ContainsAny(u.Host, "[]") {
		return "'none'"
	}
	path := strings.ReplaceAll(u.EscapedPath(), ",", "%2C") // a comma would end the policy
	if path == "" {
		path = "/"
	}
	if strings.ContainsAny(path, " ;'\"\t\r\n") {
		return "'none'"
	}
	return u.Scheme + "://" + u.Host + path
}

// isTarget accepts an origin (https://app.example.com:8443) or a scheme (com.example.app:), and nothing that could end
// or widen the directive.
func isTarget(t string) bool {
	if t == "" || len(t) > 300 || strings.ContainsAny(t, " ;,'\"*\\\t\r\n") {
		return false
	}
	for _, c := range t {
		if c <= 0x20 || c >= 0x7f {
			return false
		}
	}
	u, err := url.Parse(t)
	if err != nil || u.Scheme == "" {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "javascript", "data", "blob", "vbscript", "about", "filesystem":
		return false
	case "http", "https":
		return u.Host != "" && u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
	}
	return t == u.Scheme+":"
}
