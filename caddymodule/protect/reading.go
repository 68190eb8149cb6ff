package protect

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

// Where a part of a request decides, a request that the upstream could read otherwise is refused.
// (docs/decisions/gateway.md#requests-that-rules-read)

// methodOverrides are headers by which frameworks take another method than that of the request, and methodParam is the
// parameter.
var methodOverrides = fieldname.NewSet("X-Http-Method-Override", "X-Http-Method", "X-Method-Override")

const methodParam = "_method"

// readable refuses a request if a part of it that decides can be read in two ways.
func readable(r *http.Request, asks policy.Parts) *refusal {
	switch {
	case asks.Path && !sitepath.Canonical(r.URL.EscapedPath()):
		return malformed("the path is not in its canonical form").by(refusals.PathNotCanonical)
	case asks.Method && !plainMethod(r):
		return malformed("the method is not in upper case, or the request names another one in a header or parameter").by(refusals.NotPlain)
	case asks.Query && !plainQuery(r.URL.RawQuery, asks.Params):
		return malformed("the query can be read in two ways").by(refusals.NotPlain)
	case asks.Host && (strings.HasSuffix(withoutPort(r.Host), ".") || strings.ContainsAny(r.Host, "@/\\ ")):
		return malformed("the host is not in its plain form").by(refusals.NotPlain)
	case asks.Address && !addressKnown(r):
		return malformed("the address of the client is unknown, and rules ask for it").by(refusals.AddressUnknown)
	}
	return nil
}

// plainMethod reports whether upstreams take the method for what it is here.
func plainMethod(r *http.Request) bool {
	if strings.ContainsFunc(r.Method, func(c rune) bool { return (c < 'A' || c > 'Z') && c != '-' }) {
		return false
	}
	for name := range r.Header {
		if methodOverrides.Has(name) {
			return false
		}
	}
	for pair := range strings.FieldsFuncSeq(r.URL.RawQuery, separates) {
		if key := sitepath.QueryKey(pair); odd(key) || sameParam(key, methodParam) {
			return false
		}
	}
	return true
}

// separates reports whether some upstreams separate parameters by a character.
func separates(c rune) bool { return c == '&' || c == ';' }

// plainQuery reports whether upstreams find the parameters in a query that are found here: it parses, and each of
// params is there once at most, under no other spelling.
func plainQuery(raw string, params []string) bool {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return false
	}
	for key, list := range values {
		if odd(key) || slices.ContainsFunc(list, odd) {
			return false
		}
		for _, param := range params {
			if key == param && len(list) > 1 || key != param && sameParam(key, param) {
				return false
			}
		}
	}
	return true
}

// odd reports whether a text has characters that end it for some programs.
func odd(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) }

// sameParam reports whether some upstreams take the names of two parameters for the same: upper and lower case
// (ASP.NET), white space around it, . and white space for _ and what follows a bracket (PHP).
func sameParam(a, b string) bool { return plainParam(a) == plainParam(b) }

func plainParam(name string) string {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "[")
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_").Replace(name))
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// unknownClientVar is set for a request whose client has no known address.
const unknownClientVar = "gatehouse.client_unknown"

// shorten gives the address of the client its short form: a proxy that listens on IPv6 alone writes ::ffff:192.0.2.1,
// which is in no range of IPv4, so it would pass a rule that refuses 192.0.2.0/24.
func shorten(r *http.Request) {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if a, err := netip.ParseAddr(text); err == nil && a.Is4In6() {
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, a.Unmap().String())
	}
}

// addressKnown reports whether the address of the client is known.
func addressKnown(r *http.Request) bool {
	if unknown, _ := caddyhttp.GetVar(r.Context(), unknownClientVar).(bool); unknown {
		return false
	}
	text, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if !ok { // no server of Caddy has seen the request
		return true
	}
	address, _, _ := strings.Cut(text, "%")
	_, err := netip.ParseAddr(address)
	return err == nil
}

// asUpstream returns a request as matchers must read it: a WebSocket of HTTP/2 and HTTP/3 is asked for by CONNECT (RFC
// 8441 5), and reaches the upstream as GET.
func asUpstream(r *http.Request) *http.Request {
	if r.Method != http.MethodConnect {
		return r
	}
	out := *r
	out.Method = http.MethodGet
	return &out
}
