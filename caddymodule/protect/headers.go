package protect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

// defaultHeaders carry the identity upstream when a site does not name its own headers.
var defaultHeaders = []IdentityHeader{
	{"Remote-User", "username"}, {"Remote-Name", "name"}, {"Remote-Email", "email"}, {"Remote-Groups", "groups"},
}

// alwaysDeleted are headers by which a request can tell upstreams and frameworks another path or method than the one
// checked here, and Proxy, which CGI programs read as the address of a proxy for their own requests.
var alwaysDeleted = []string{"X-Original-Url", "X-Original-Uri", "X-Original-Method", "X-Original-Host", "X-Rewrite-Url", "Proxy"}

// proxyHeaders tell what a proxy saw. They are accepted from Caddy's trusted_proxies and deleted otherwise, like
// everything that starts with forwardedPrefix. reverse_proxy sets the ones it knows again.
var proxyHeaders = []string{
	"Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip",
	"Client-Cert", "Client-Cert-Chain",
}

const forwardedPrefix = "X-Forwarded-"

var proxyNames = fieldname.NewSet(proxyHeaders...)

// guardedNames are the fields that only protect may set.
func guardedNames(own []IdentityHeader, assertion string) *fieldname.Set {
	names := append(slices.Clone(alwaysDeleted), defaultAssertion)
	if assertion != "" && assertion != defaultAssertion {
		names = append(names, assertion)
	}
	for _, h := range slices.Concat(defaultHeaders, own) {
		names = append(names, h.Name)
	}
	return fieldname.NewSet(names...)
}

func isForwarded(name string) bool {
	return len(name) > len(forwardedPrefix) && fieldname.Same(name[:len(forwardedPrefix)], forwardedPrefix)
}

// form refuses requests that no upstream should see, from any sender.
func (p *Protect) form(g *requestState) *refusal {
	r := g.r
	switch {
	case r.Method == http.MethodTrace, r.Method == http.MethodConnect && !g.webSocket:
		// TRACE would show an upstream's view of the headers to a script
		return &refusal{
			reason: refusals.MethodNotAllowed, status: http.StatusMethodNotAllowed, code: "invalid_request",
			text: "the method is not allowed",
		}
	case strings.Contains(r.RequestURI, "#"): // RFC 9112 3.2: a target has no fragment; servers differ in where it ends
		return malformed("the request target has a fragment")
	case r.Method != http.MethodConnect && !strings.HasPrefix(r.URL.Path, "/"):
		return malformed("the request target is not a path")
	}
	for _, line := range r.Header["Connection"] {
		if plainConnection(line) {
			continue
		}
		// RFC 9110 7.6.1: headers that Connection names are removed before the request goes on. That would remove the
		// identity headers too.
		for name := range strings.SplitSeq(line, ",") {
			if p.guarded.Has(strings.TrimSpace(name)) {
				return malformed("Connection names a header that is not the client's")
			}
		}
	}
	return nil
}

// plainConnection reports whether a Connection header has one of the usual values, which name no other header.
func plainConnection(v string) bool {
	return v == "keep-alive" || v == "close" || v == "Upgrade" || v == "keep-alive, Upgrade"
}

// cleanse deletes the fields that only protect or a trusted proxy may set, in every spelling, on every path. Headers
// that an earlier protect has set stay in a request that this one does not guard.
func (p *Protect) cleanse(g *requestState, guarded bool) {
	r := g.r
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	var kept []IdentityHeader
	if h, ok := caddyhttp.GetVar(r.Context(), holderVar).(*holder); ok && !guarded {
		kept = h.headers
	}
	for name := range r.Header {
		if slices.ContainsFunc(kept, func(h IdentityHeader) bool { return h.Name == name }) {
			continue
		}
		// A proxy writes the canonical names. Other spellings come from its client.
		if p.guarded.Has(name) || (isForwarded(name) || proxyNames.Has(name)) && (!trusted || fieldname.Plain(name) != name) {
			delete(r.Header, name)
		}
	}
	if len(r.Trailer) > 0 && r.Body != nil {
		r.Body = &trailerGuard{ReadCloser: r.Body, trailer: r.Trailer, names: p.guarded}
		p.guarded.DeleteFrom(r.Trailer)
	}
	if !g.webSocket {
		// Only WebSocket may leave HTTP: any other protocol would be a tunnel past this handler. (RFC 9110 7.8: a
		// server may ignore Upgrade.)
		delete(r.Header, "Upgrade")
		delete(r.Header, "Http2-Settings")
	}
}

// trailerGuard deletes trailers with the names of guarded headers. Trailers are known once the body has been read.
type trailerGuard struct {
	io.ReadCloser
	trailer http.Header
	names   *fieldname.Set
}

func (t *trailerGuard) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err != nil {
		t.names.DeleteFrom(t.trailer)
	}
	return n, err
}

// setIdentityHeaders sets the identity headers and Caddy's placeholders.
func (p *Protect) setIdentityHeaders(r *http.Request, who *token.Introspection) {
	values := make([]string, 0, len(p.headers))
	for _, h := range p.headers {
		v, _ := claim(who, h.Claim, p.now())
		if v = fieldValue(v); v != "" {
			values = append(values, v)
			r.Header[h.Name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	if h := placeholders(r, who, p.now); h != nil {
		if len(h.headers) == 0 {
			h.headers = p.headers
		} else {
			h.headers = slices.Concat(h.headers, p.headers)
		}
	}
}

// holder is the person or client that the placeholders of a request describe: the one that the last protect on its way
// let in.
type holder struct {
	who     *token.Introspection
	headers []IdentityHeader // that any protect on the way has set
	counted bool             // as the use of a client
}

const holderVar = "gatehouse.holder"

func (*holder) String() string { return "[redacted]" }

// introduced reports whether a protect has set the placeholders of a request already.
func introduced(r *http.Request) bool {
	_, ok := caddyhttp.GetVar(r.Context(), holderVar).(*holder)
	return ok
}

// placeholders sets {http.auth.user.*}. who nil: no credential was required, so all are empty. A placeholder that is
// not set would go upstream unresolved.
func placeholders(r *http.Request, who *token.Introspection, now func() time.Time) *holder {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return nil
	}
	h, ok := caddyhttp.GetVar(r.Context(), holderVar).(*holder)
	if !ok {
		h = new(holder)
		caddyhttp.SetVar(r.Context(), holderVar, h)
		repl.Map(func(key string) (any, bool) {
			name, ok := strings.CutPrefix(key, "http.auth.user.")
			if !ok {
				return nil, false
			}
			if h.who == nil {
				return "", true
			}
			v, _ := claim(h.who, name, now())
			return fieldValue(v), true // most of them end up in headers
		})
	}
	h.who = who
	id := ""
	if who != nil {
		id = who.Subject
	}
	repl.Set("http.auth.user.id", id)
	return h
}

// stripCredentials takes Gatehouse's cookies and tokens out of the request before it goes upstream, and keeps them for
// a further protect on the way.
func (p *Protect) stripCredentials(g *requestState, rec *credentials) {
	r := g.r
	taken := false
	if kept, found := withoutOurs(r.Header["Cookie"]); found {
		taken = true
		if r.Header["Cookie"] = kept; len(kept) == 0 {
			delete(r.Header, "Cookie")
		}
	}
	if ref := r.Header["Referer"]; p.Login && len(ref) > 0 && strings.Contains(ref[0], authz.SiteCodeParam) {
		delete(r.Header, "Referer") // some clients name the redirecting URL there, code and all
	}
	if len(r.Header["Authorization"]) > 0 && !g.foreign && p.strips(rec) {
		taken = true
		delete(r.Header, "Authorization")
		delete(r.Header, dpop.Header)
	}
	if taken {
		caddyhttp.SetVar(r.Context(), arrivalVar, rec)
	}
}

// withoutOurs returns Cookie lines without Gatehouse's cookies, others byte for byte.
func withoutOurs(lines []string) (kept []string, found bool) {
	if !slices.ContainsFunc(lines, mayBeOurs) {
		return lines, false
	}
	for _, line := range lines {
		var rest []string
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimLeft(pair, "= \t"), "=")
			if cookie.IsOurs(strings.Trim(name, " \t\"")) {
				found = true
				continue
			}
			rest = append(rest, strings.TrimLeft(pair, " "))
		}
		if s := strings.TrimSpace(strings.Join(rest, "; ")); s != "" {
			kept = append(kept, s)
		}
	}
	if !found {
		return lines, false
	}
	return kept, true
}

// mayBeOurs is a quick search for the "gh-" that each of our cookie names contains.
func mayBeOurs(line string) bool {
	for i := 0; i+2 < len(line); i++ {
		if line[i]|0x20 == 'g' && line[i+1]|0x20 == 'h' && line[i+2] == '-' {
			return true
		}
	}
	return false
}

// dropOurs removes from an answer the cookies that an upstream sets under one of Gatehouse's names.
func dropOurs(h http.Header) {
	for _, field := range [...]string{"Set-Cookie", http.TrailerPrefix + "Set-Cookie"} {
		if lines := h[field]; slices.ContainsFunc(lines, mayBeOurs) {
			h[field] = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
				// A cookie without a name comes back as its value alone, which then reads as a name and a value.
				name, _, _ := strings.Cut(strings.TrimLeft(line, "= \t"), "=")
				return cookie.IsOurs(strings.Trim(name, " \t\""))
			})
		}
	}
}

// claim returns the claim of a person or client under a name as one text. ok is false when it is absent.
func claim(who *token.Introspection, name string, now time.Time) (value string, ok bool) {
	one, many := policy.Lookup(who, name, now)
	switch name {
	case "scope", "aud", "amr":
		return strings.Join(many, " "), len(many) > 0
	case "groups":
		return groupList(many), len(many) > 0
	case "name":
		if one == "" && who.Person != nil { // applications greet people by it
			return who.Person.Username, who.Person.Username != ""
		}
	}
	if one != "" {
		return one, true
	}
	return strings.Join(many, ","), len(many) > 0
}

// groupList joins groups with commas. A group is left out if its name would read as other groups: with a comma as two,
// with a space at an edge as that of the name without it. (docs/decisions/gateway.md#identity-headers)
func groupList(groups []string) string {
	if slices.ContainsFunc(groups, misread) {
		groups = slices.DeleteFunc(slices.Clone(groups), misread)
	}
	return strings.Join(groups, ",")
}

func misread(group string) bool {
	return strings.Contains(group, ",") || strings.TrimSpace(group) != group
}

const maxFieldValue = 8 << 10 // bytes of an identity header

// fieldValue makes a text fit for one header field: UTF-8 as it is, as peers do, without control characters and other
// ends of lines. A text that is too long is left out: its beginning can mean something else.
func fieldValue(s string) string {
	if len(s) > maxFieldValue {
		return ""
	}
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= ' ' && s[i] < 0x7f
	}
	if !clean {
		s = strings.Map(func(r rune) rune {
			if r < ' ' || (r >= 0x7f && r < 0xa0) || r == 0x2028 || r == 0x2029 || r == utf8.RuneError {
				return -1
			}
			return r
		}, s)
	}
	return strings.TrimSpace(s)
}

// checkIdentityHeader refuses names that mean something else in HTTP.
func checkIdentityHeader(name string) error {
	switch c := http.CanonicalHeaderKey(name); {
	case !httpguts.ValidHeaderFieldName(name) || fieldname.Plain(name) != name:
		return fmt.Errorf("%q is not a header name: letters, digits and -", name)
	case slices.Contains([]string{
		"Authorization", "Connection", "Content-Length", "Content-Type", "Content-Encoding", "Cookie", "Expect", "Host", "Keep-Alive",
		"Origin", "Proxy-Authorization",
		"Proxy-Connection", "Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
	}, c), strings.HasPrefix(c, "Sec-"), isForwarded(c):
		return fmt.Errorf("%s already has a meaning in HTTP: choose another header, such as Remote-User", c)
	}
	return nil
}

const everyPartition = "*"

var partitionForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkPartition(s string) error {
	if s != everyPartition && !partitionForm.MatchString(s) {
		return fmt.Errorf("%q is not the name of a partition: lower-case letters, digits and . _ -, or * for every partition", s)
	}
	return nil
}

func checkClaim(s string) error {
	if s == "" || len(s) > 64 || strings.ContainsAny(s, " \t\"{}") {
		return errors.New("want the name of a claim, such as sub, username or email")
	}
	return nil
}
