package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// CheckMatch refuses matchers that no request can match: a rule with them does nothing, and a protect with them guards
// nothing. What placeholders stand for is known with the request alone.
func CheckMatch(set caddy.ModuleMap) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := checkMatcher(name, set[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checks are those of the values of matchers that are lists.
var checks = map[string]func(string) error{"path": checkPath, "method": checkMethod, "host": checkHost}

func checkMatcher(name string, raw json.RawMessage) error {
	switch name {
	case "not":
		var inner []caddy.ModuleMap
		if json.Unmarshal(raw, &inner) != nil {
			return nil // Caddy says what is wrong
		}
		for _, set := range inner {
			if err := CheckMatch(set); err != nil {
				return err
			}
		}
	case "path_regexp":
		var m struct {
			Pattern string `json:"pattern"`
		}
		if json.Unmarshal(raw, &m) == nil && beginsElsewhere.MatchString(m.Pattern) {
			return fmt.Errorf("%q matches no request, since a path begins with /: write ^/%s", m.Pattern, m.Pattern[1:])
		}
	case "client_ip", "remote_ip":
		var m struct {
			Ranges []string `json:"ranges"`
		}
		if json.Unmarshal(raw, &m) != nil {
			return nil
		}
		for _, s := range m.Ranges {
			if addr, _, zoned := strings.Cut(s, "%"); zoned {
				s = addr
			}
			n, err := caddyfileutil.ParseNetwork(s)
			switch {
			case hasPlaceholder(s):
			case err != nil:
				return err
			case n.Addr().Is4() && strings.Contains(s, ":"):
				return fmt.Errorf("%q matches no request, since addresses of IPv4 are compared in their short form: write %s", s, n)
			}
		}
	case "protocol":
		var protocol string
		if json.Unmarshal(raw, &protocol) == nil && !slices.Contains(protocols, protocol) && !hasPlaceholder(protocol) {
			return fmt.Errorf("%q matches no request: known are %s", protocol, strings.Join(protocols, ", "))
		}
	}
	check := checks[name]
	var values []string
	if check == nil || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	if len(values) == 0 {
		return fmt.Errorf("names nothing, so that it matches no request")
	}
	for _, v := range values {
		if hasPlaceholder(v) {
			continue
		}
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// beginsElsewhere are patterns of which each match begins with something else than a slash.
var beginsElsewhere = regexp.MustCompile(`^\^[A-Za-z0-9]`)

var protocols = []string{
	"http", "https", "grpc", "http/1.0", "http/1.0+", "http/1.1", "http/1.1+", "http/2",
	"http/2+", "http/3", "http/3+",
}

func hasPlaceholder(s string) bool { return strings.Contains(s, "{") }

func checkPath(s string) error {
	switch {
	case s == "":
		return fmt.Errorf(`"" matches no request: write /* for every path`)
	case strings.Contains(s, "://"):
		return fmt.Errorf("%q matches no request, since a path has no scheme and no host: write match host, and the path alone", s)
	case s[0] == '^':
		return fmt.Errorf("%q matches no request, since it is a regular expression: write match path_regexp", s)
	case s[0] != '/' && s[0] != '*':
		return fmt.Errorf("%q matches no request, since a path begins with /: write /%s", s, s)
	case strings.ContainsAny(s, "?#"):
		return fmt.Errorf("%q matches no request: a path has no query and no fragment; the matcher query looks at the query", s)
	case strings.Trim(s, ". ") != s && !strings.HasSuffix(s, "*"):
		return fmt.Errorf("%q matches no request: dots and spaces at the end of a path do not count: write %s", s, strings.TrimRight(s, ". "))
	case strings.Contains("/"+s+"/", "/../"), strings.Contains("/"+s+"/", "/./"):
		return fmt.Errorf("%q matches no request: a path has no . and .. where rules look at it", s)
	}
	if plain := needlessEscape.ReplaceAllStringFunc(s, unescape); plain != s {
		return fmt.Errorf("%q matches no request that spells the path as everyone does: write %s", s, plain)
	}
	return nil
}

// needlessEscape are the escapes of characters that clients write as they are. (RFC 3986 2.3)
var needlessEscape = regexp.MustCompile(`(?i)%(2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])`)

func unescape(s string) string {
	out, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return out
}

// methods are those of RFC 9110, PATCH and WebDAV. An application may have others.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
	http.MethodOptions, http.MethodTrace, "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH",
}

func checkMethod(s string) error {
	if !httpguts.ValidHeaderFieldName(s) {
		return fmt.Errorf("%q matches no request: write each method by itself, such as match method POST PUT", s)
	}
	for _, f := range caddyfileutil.Unknown([]string{strings.ToUpper(s)}, methods) {
		return fmt.Errorf("%q matches no request: there is no such method, did you mean %s?", s, f.Near)
	}
	return nil
}

func checkHost(s string) error {
	_, err := netip.ParseAddr(strings.Trim(s, "[]"))
	switch {
	case strings.Contains(s, "://"), strings.Contains(s, "/"):
		return fmt.Errorf("%q matches no request: a host is a name alone, such as wiki.example.com", s)
	case err != nil && strings.Contains(s, ":"):
		return fmt.Errorf("%q matches no request: a host is compared without its port", s)
	case s == "" || err != nil && strings.HasSuffix(s, "."):
		return fmt.Errorf("%q matches no request: write the host without a dot at its end", s)
	}
	return nil
}

// matchesAll reports whether the request part of a rule is only a path that every request has.
func (r *Rule) matchesAll() bool {
	var sets []caddy.ModuleMap
	if r.raw != "" && json.Unmarshal([]byte(r.raw), &sets) != nil {
		return false
	}
	if len(r.Match) > 0 {
		sets = r.Match
	}
	return slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool {
		var paths []string
		return len(set) == 1 && json.Unmarshal(set["path"], &paths) == nil &&
			slices.ContainsFunc(paths, func(p string) bool { return p == "*" || p == "/*" })
	})
}
