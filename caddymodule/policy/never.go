package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// CheckMatch refuses matchers that no request can match: a rule with them does nothing, and a protect with them guards
// nothing. Values with placeholders are not checked: they are known only with the request.
func CheckMatch(set caddy.ModuleMap) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := checkMatcher(name, set[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checks has the checks of the values of matchers that are lists.
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
			return coded.Errorf("regexp_slash", "value pattern", "%q matches no request, since a path begins with /: write ^/%s", m.Pattern, m.Pattern[1:])
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
				return coded.Errorf("ip_short", "value meant", "%q matches no request, since addresses of IPv4 are compared in their short form: write %s", s, n)
			}
		}
	case "protocol":
		var protocol string
		if json.Unmarshal(raw, &protocol) == nil && !slices.Contains(protocols, protocol) && !hasPlaceholder(protocol) {
			return coded.Errorf("protocol", "value list", "%q matches no request: known are %s", protocol, strings.Join(protocols, ", "))
		}
	}
	check := checks[name]
	var values []string
	if check == nil || json.Unmarshal(raw, &values) != nil {
		return nil
	}
	if len(values) == 0 {
		return coded.New("match_nothing", "names nothing, so it matches no request")
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

// beginsElsewhere matches patterns of which no match begins with a slash.
var beginsElsewhere = regexp.MustCompile(`^\^[A-Za-z0-9]`)

var protocols = []string{
	"http", "https", "grpc", "http/1.0", "http/1.0+", "http/1.1", "http/1.1+", "http/2",
	"http/2+", "http/3", "http/3+",
}

func hasPlaceholder(s string) bool { return strings.Contains(s, "{") }

func checkPath(s string) error {
	switch {
	case s == "":
		return coded.New("path_none", `"" matches no request: write /* for every path`)
	case strings.Contains(s, "://"):
		return coded.Errorf("path_address", "value", "%q matches no request, since a path has no scheme and no host: write match host, and the path alone", s)
	case s[0] == '^':
		return coded.Errorf("path_regexp", "value", "%q matches no request, since it is a regular expression: write match path_regexp", s)
	case s[0] != '/' && s[0] != '*':
		return coded.Errorf("path_slash", "value meant", "%q matches no request, since a path begins with /: write /%s", s, s)
	case strings.ContainsAny(s, "?#"):
		return coded.Errorf("path_query", "value", "%q matches no request: a path has no query and no fragment; the matcher query looks at the query", s)
	case strings.Trim(s, ". ") != s && !strings.HasSuffix(s, "*"):
		return coded.Errorf("path_dots", "value meant", "%q matches no request: dots and spaces at the end of a path do not count: write %s", s, strings.TrimRight(s, ". "))
	case strings.Contains(s, "//"):
		return coded.Errorf("path_empty", "value meant", "%q matches no request: a path has no empty segment where rules look at it: write %s", s,
			slashes.ReplaceAllString(s, "/"))
	case strings.Contains("/"+s+"/", "/../"), strings.Contains("/"+s+"/", "/./"):
		return coded.Errorf("path_segments", "value", "%q matches no request: a path has no . and .. where rules look at it", s)
	}
	return checkEscapes(s)
}

// slashes matches empty segments of a path.
var slashes = regexp.MustCompile(`//+`)

// checkEscapes refuses a pattern with an escape that no path has where rules look at it: of a character that needs
// none, or of one that servers can take for a separator.
func checkEscapes(s string) error {
	for rest := s; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return nil
		}
		rest = after
		if strings.HasPrefix(after, "*") { // Caddy's wildcard among escapes
			continue
		}
		escape := "%" + after[:min(2, len(after))]
		char, err := url.PathUnescape(escape)
		if err != nil {
			return coded.Errorf("path_escape", "value escape", "%q matches no request: %s is not an escaped character; write %%25 for a percent sign", s, escape)
		}
		switch {
		case strings.Contains(`/\%;.`, char), char < " ", char == "\x7f":
			return coded.Errorf("path_refused", "value escape", "%q matches no request: a path with %s is refused before the rules", s, escape)
		case char < "\x7f" && url.PathEscape(char) == char:
			return coded.Errorf("path_needless", "value - meant", "%q matches no request, since %s needs no escape in a path: write %s", s, char, strings.ReplaceAll(s, escape, char))
		}
	}
}

// methods are those in the registry of IANA, and those of caches.
var methods = []string{
	"ACL", "BAN", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LABEL", "LINK", "LOCK",
	"M-SEARCH", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "NOTIFY", "OPTIONS",
	"ORDERPATCH", "PATCH", "POST",
	"PROPFIND", "PROPPATCH", "PURGE", "PUT", "QUERY", "REBIND", "REPORT", "SEARCH", "SUBSCRIBE", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK",
	"UNLOCK", "UNSUBSCRIBE", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
}

func checkMethod(s string) error {
	if !httpguts.ValidHeaderFieldName(s) {
		return coded.Errorf("methods", "value", "%q matches no request: write each method separately, such as match method POST PUT", s)
	}
	if upper := strings.ToUpper(s); !slices.Contains(methods, upper) {
		if meant := spelling.Word(upper, methods); meant != "" {
			return coded.Errorf("method_meant", "value meant", "%q matches no request: did you mean %s?", s, meant)
		}
	}
	return nil
}

func checkHost(s string) error {
	_, err := netip.ParseAddr(strings.Trim(s, "[]"))
	switch {
	case s == "", strings.Contains(s, "/"):
		return coded.Errorf("host_name", "value", "%q matches no request: a host is a name alone, such as wiki.example.com", s)
	case err != nil && strings.Contains(s, ":"):
		return coded.Errorf("host_port", "value", "%q matches no request: a host is compared without its port", s)
	case err != nil && strings.HasSuffix(s, "."):
		return coded.Errorf("host_dot", "value", "%q matches no request: write the host without a dot at its end", s)
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
