package authz

import (
	"errors"
	"slices"
	"strings"
)

const (
	maxScopeText = 8 << 10 // bytes of a scope parameter
	maxScopes    = 128     // distinct scopes of a request
)

// scopeOffline is what clients ask to get a refresh token. Here the grant refresh_token decides, so it is allowed and changes
// nothing. (docs/decisions.md, "Token server")
const (
	scopeOpenID  = "openid"
	scopeOffline = "offline_access"
)

// errScopeText says that a scope parameter is not a list of scope tokens.
var errScopeText = errors.New("not a list of scopes")

// parseScope reads a scope parameter. Duplicates collapse, the order of the first ones stays.
// RFC 6749 3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E ), one space between two.
func parseScope(text string) ([]string, error) {
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

// scopesFor returns what a client asks for with the scope parameter of f: its default scopes when it names none.
// (docs/decisions.md, "Scopes") Whether it may have them is for may to say.
func (s *Server) scopesFor(c *Client, f form) ([]string, error) {
	asked, err := parseScope(f.get("scope"))
	if err != nil {
		return nil, invalidScope(err, "scope is malformed")
	}
	if len(asked) == 0 {
		asked = c.DefaultScopes
	}
	if len(asked) == 0 {
		return nil, invalidScope(nil, "no scope was asked and the client has no default")
	}
	return asked, nil
}

// scopeLevel returns the highest authentication level that one of the scopes demands. 0: any.
func (s *Server) scopeLevel(scope []string) int {
	level := 0
	for _, name := range scope {
		level = max(level, s.clients.scopes[name].Level)
	}
	return level
}

// has tells whether the client may ask for a scope.
func (c *Client) hasScope(name string) bool {
	return slices.Contains(c.Scopes, name) || (name == scopeOffline && c.hasGrant(grantRefreshToken))
}

func (c *Client) hasGrant(name string) bool { return slices.Contains(c.Grants, name) }

// stillAllowed returns the scopes that the client may still have: one that was taken from it is gone from what it got earlier.
func (c *Client) stillAllowed(scope []string) []string {
	if !slices.ContainsFunc(scope, func(name string) bool { return !c.hasScope(name) }) {
		return scope
	}
	return slices.DeleteFunc(slices.Clone(scope), func(name string) bool { return !c.hasScope(name) })
}

// isSubset tells whether every part is in whole.
func isSubset(parts, whole []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(whole, p) })
}

// ask is what a client wants leave for. An empty member asks for nothing.
type ask struct {
	Grant     string
	Scope     []string
	Provider  string
	Resources []string
}

// errProvider is the cause of a refused identity provider.
var errProvider = errors.New("unable to determine identity provider")

// may is the one place that says whether a client may use a grant, scopes, an identity provider and resources: every
// request for a token or code passes here.
func (s *Server) may(c *Client, a ask) error {
	if c.Disabled {
		return unauthorizedClient(nil, "the client is disabled")
	}
	if a.Grant != "" && !c.hasGrant(a.Grant) {
		return unauthorizedClient(nil, "the client may not use this grant type") // RFC 6749 5.2
	}
	for _, name := range a.Scope {
		if !c.hasScope(name) {
			return invalidScope(nil, "a scope is unknown or not allowed") // one is enough for the whole request
		}
		// A level is a person's; a client has none.
		if a.Grant == grantClientCredentials && s.clients.scopes[name].Level > 0 {
			return invalidScope(nil, "a scope needs a person")
		}
	}
	if a.Provider != "" && !slices.Contains(s.clients.usable(c), a.Provider) {
		return accessDenied(errProvider)
	}
	if !isSubset(a.Resources, c.Audiences) {
		return invalidTarget(nil) // RFC 8707 2
	}
	return nil
}
