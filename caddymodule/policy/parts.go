package policy

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Parts are the parts of a request that decide about it. Where one does, the next program in line must not read it
// otherwise than the matchers here.
type Parts struct {
	Path, Method, Query, Host, Address bool
	// Params are the names of the parameters of the query that decide, as far as they are known.
	Params []string
}

// Or returns the parts of two.
func (p Parts) Or(o Parts) Parts {
	return Parts{
		Path: p.Path || o.Path, Method: p.Method || o.Method, Query: p.Query || o.Query, Host: p.Host || o.Host, Address: p.Address || o.Address,
		Params: slices.Concat(p.Params, o.Params),
	}
}

// partsByMatcher are those of Caddy's matchers whose answers depend on what they are named after.
var partsByMatcher = map[string]Parts{
	"client_ip": {Address: true}, "header": {}, "header_regexp": {}, "host": {Host: true}, "method": {Method: true}, "path": {Path: true},
	"path_regexp": {Path: true}, "protocol": {}, "query": {Query: true}, "remote_ip": {Address: true}, "tls": {},
}

// The words by which an expression, a variable or the name of a file asks for a part.
var (
	byMethod  = regexp.MustCompile(`method`)
	byQuery   = regexp.MustCompile(`query|uri`)
	byHost    = regexp.MustCompile(`host`)
	byAddress = regexp.MustCompile(`_ip|remote|addr`)
)

// partsOf returns the parts that a set of matchers asks for. A matcher that is unknown here asks for all but the
// address.
func partsOf(set caddy.ModuleMap) (out Parts) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		raw := set[name]
		parts, known := partsByMatcher[name]
		switch {
		case name == "query":
			var params map[string][]string
			if json.Unmarshal(raw, &params) == nil {
				parts.Params = slices.Sorted(maps.Keys(params))
			}
		case known:
		case name == "not":
			var inner []caddy.ModuleMap
			if json.Unmarshal(raw, &inner) != nil {
				return everyPart
			}
			for _, set := range inner {
				parts = parts.Or(partsOf(set))
			}
		case name == "expression", name == "vars", name == "vars_regexp", name == "file":
			text := strings.ReplaceAll(strings.ToLower(string(raw)), "uri.path", "")
			parts = Parts{
				Path: true, Method: byMethod.MatchString(text), Query: byQuery.MatchString(text), Host: byHost.MatchString(text),
				Address: byAddress.MatchString(text),
			}
		default:
			parts = Parts{Path: true, Method: true, Query: true, Host: true}
		}
		out = out.Or(parts)
	}
	return out
}

var everyPart = Parts{Path: true, Method: true, Query: true, Host: true, Address: true}

// PartsOfAll returns the parts that some of several sets ask for.
func PartsOfAll(sets []caddy.ModuleMap) (out Parts) {
	for _, set := range sets {
		out = out.Or(partsOf(set))
	}
	return out
}
