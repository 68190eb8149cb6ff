package client

import (
	"errors"
	"slices"
	"strings"
)

const (
	maxScopeText = 8 << 10 // bytes of a scope parameter
	maxScopes    = 128     // distinct scopes of a request
)

// The scopes with a meaning of their own. Clients ask for ScopeOffline to get a refresh token. Here the grant
// refresh_token decides, so it is allowed and changes nothing. (docs/decisions/authorization.md#scopes)
const (
	ScopeOpenID  = "openid"
	ScopeOffline = "offline_access"
)

// StandardScopes are the scopes that OpenID Connect and Gatehouse give a meaning, as the metadata lists them.
var StandardScopes = []string{ScopeOpenID, "profile", "email", "address", "phone", ScopeGroups, ScopeRoles, ScopePermissions, ScopeOffline}

// errScopeText says that a scope parameter is not a list of scope tokens.
var errScopeText = errors.New("not a list of scopes")

// ParseScope reads a scope parameter. Duplicates collapse, the order of the first ones stays.
// RFC 6749 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E ), one space between two.
func ParseScope(text string) ([]string, error) {
	if len(text) > maxScopeText {
		return nil, errScopeText
	}
	var out []string
	for name := range strings.SplitSeq(text, " ") {
		if name == "" {
			continue // more than one space says nothing else
		}
		if !isScopeToken(name) {
			return nil, errScopeText
		}
		if slices.Contains(out, name) {
			continue
		}
		if len(out) == maxScopes {
			return nil, errScopeText
		}
		out = append(out, name)
	}
	return out, nil
}

func isScopeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// Scope is a scope with more properties than its name.
type Scope struct {
	Name        string
	Description string // shown on the consent page
	UsageLimit  int    // uses of an access token; 0: unlimited
	Level       int    // authentication level that the person must have reached; 0: any
	Assurance   int    // identity assurance level that the person must have; 0: any
}

// IsSubset reports whether every part is in whole.
func IsSubset(parts, whole []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(whole, p) })
}
