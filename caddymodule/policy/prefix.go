package policy

import (
	"encoding/json"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// prefixes are the beginnings, in lower case, of all paths that a rule can fit. Most rules of a policy are about other
// paths than that of a request, and this tells so for a fraction of what Caddy's matchers cost. Whether a rule fits is
// for the matchers alone to say. nil: nothing is known.
type prefixes []string

// prefixesOf returns the prefixes of the matchers of a rule.
func prefixesOf(sets caddyhttp.RawMatcherSets) prefixes {
	if len(sets) != 1 {
		return nil
	}
	return prefixesOfSet(sets[0])
}

func prefixesOfSet(set caddy.ModuleMap) (out prefixes) {
	var patterns []string
	if raw, ok := set["path"]; !ok || json.Unmarshal(raw, &patterns) != nil {
		return nil
	}
	for _, pattern := range patterns {
		beginning, _, _ := strings.Cut(pattern, "*")
		if beginning == "" || beginning[0] != '/' || !simplePath(beginning) || strings.ContainsAny(beginning, "%{[?\\") {
			return nil
		}
		out = append(out, strings.ToLower(beginning))
	}
	return out
}

// simplePath reports whether Caddy compares a path as it is, but for upper and lower case.
func simplePath(path string) bool {
	for i := range len(path) {
		if path[i] >= 0x80 || (path[i] == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.')) {
			return false
		}
	}
	return true
}

// exclude reports whether no path of the rule begins like this one, which is simple and in lower case.
func (p prefixes) exclude(path string) bool {
	for _, beginning := range p {
		if strings.HasPrefix(path, beginning) {
			return false
		}
	}
	return len(p) > 0
}
