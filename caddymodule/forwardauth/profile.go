package forwardauth

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

// profile is a kind of proxy: where it says what a client has asked for. Each has one source, and never takes another:
// headers that the proxy does not set are the client's. (docs/gateways.md)
type profile struct {
	name string
	read func(http.Header, *Question) error
}

var (
	traefik = &profile{"traefik", readForwarded}
	caddy2  = &profile{"caddy", readForwarded}
	haproxy = &profile{"haproxy", readForwarded}
	nginx   = &profile{"nginx", readOriginal}
	envoy   = &profile{name: "envoy"} // it repeats the request
	site    = &profile{name: "site"}  // a path of Gatehouse's own, which any proxy passes on

	profiles = map[string]*profile{"traefik": traefik, "caddy": caddy2, "haproxy": haproxy, "nginx": nginx}
)

// readForwarded reads the headers that Traefik and Caddy set, and that HAProxy is told to set.
func readForwarded(h http.Header, q *Question) (err error) {
	if q.Method, err = one(h, "X-Forwarded-Method"); err != nil {
		return err
	}
	if q.Scheme, err = scheme(h, "X-Forwarded-Proto"); err != nil {
		return err
	}
	if q.Host, err = one(h, "X-Forwarded-Host"); err != nil {
		return err
	}
	q.Target, err = one(h, "X-Forwarded-Uri")
	return err
}

// readOriginal reads the headers that the configuration of nginx sets, and that of ingress-nginx always.
func readOriginal(h http.Header, q *Question) (err error) {
	if q.Method, err = one(h, "X-Original-Method"); err != nil {
		return err
	}
	whole, err := one(h, "X-Original-Url")
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(whole, "://")
	i := strings.IndexAny(rest, "/?#")
	if !ok || i < 0 {
		return malformed("X-Original-URL is not a URL with a path")
	}
	q.Scheme, q.Host, q.Target = plainScheme(before), rest[:i], rest[i:]
	return nil
}

// one returns the value of a header that must be there once.
func one(h http.Header, name string) (string, error) {
	values := h[name]
	switch {
	case len(values) == 0 || values[0] == "":
		return "", malformed(name + " is missing")
	case len(values) > 1:
		return "", malformed(name + " is sent twice")
	}
	// A comma may stand in a path, but several values that something has joined must not be taken for one.
	path, _, _ := strings.Cut(values[0], "?")
	if strings.Contains(path, ",/") || strings.Contains(path, ",http") ||
		(!strings.HasPrefix(path, "/") && !strings.Contains(path, "://") && strings.Contains(path, ",")) {
		return "", malformed(name + " has several values")
	}
	return values[0], nil
}

func scheme(h http.Header, name string) (string, error) {
	v, err := one(h, name)
	return plainScheme(v), err
}

// plainScheme returns the scheme of HTTP for that of a WebSocket.
func plainScheme(s string) string {
	switch s = strings.ToLower(s); s {
	case "ws":
		return "http"
	case "wss":
		return "https"
	}
	return s
}

// others are the headers by which some kind of proxy says what was asked for, each with the test that a value says the
// same as the question.
var others = []struct {
	name string
	same func(q *Question, value string) bool
}{
	{"X-Forwarded-Method", sameMethod},
	{"X-Original-Method", sameMethod},
	{"X-Forwarded-Proto", func(q *Question, v string) bool { return plainScheme(v) == q.Scheme }},
	{"X-Forwarded-Host", sameHost},
	{"X-Original-Host", sameHost},
	{"X-Forwarded-Uri", sameTarget},
	{"X-Original-Url", sameTarget},
	{"X-Original-Uri", sameTarget},
	{"X-Rewrite-Url", sameTarget},
}

func sameMethod(q *Question, v string) bool { return v == q.Method }

func sameHost(q *Question, v string) bool { return strings.EqualFold(v, q.Host) }

func sameTarget(q *Question, v string) bool {
	return v == q.Target || v == q.Scheme+"://"+q.Host+q.Target
}

// agree refuses a question if a header of another kind of proxy says something else: the client has sent it, or two
// proxies disagree. An empty one says nothing.
func agree(h http.Header, q *Question) error {
	for _, other := range others {
		for _, v := range h[other.name] {
			if v != "" && !other.same(q, v) {
				return malformed(other.name + " says something else about the request")
			}
		}
	}
	return nil
}

// read are headers that decide, besides those of the proxies.
var read = []string{
	"Accept", "Access-Control-Request-Method", "Authorization", "Cookie", "Origin", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode",
	"Sec-Fetch-Site", secretHeader,
}

// aliases returns the first header whose name some server takes for one that is read here. "": no one has sent one.
func aliases(h http.Header) string {
	for name := range h {
		plain := fieldname.Plain(name)
		if plain == name {
			continue
		}
		plain = http.CanonicalHeaderKey(plain)
		if strings.HasPrefix(plain, "X-Forwarded-") || strings.HasPrefix(plain, "X-Original-") || slices.Contains(read, plain) {
			return name
		}
	}
	return ""
}
