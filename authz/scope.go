package authz

import (
	"errors"
	"slices"
)

const ()

// scopeOffline is what clients ask to get a refresh token. Here the grant refresh_token decides, so it is allowed and changes
// nothing. (docs/decisions.md, "Token server")
const ()

// scopesFor returns what a client asks for with the scope parameter of f: its default scopes when it names none.
// (docs/decisions.md, "Scopes") Whether it may have them is for may to say.
func (r *registry) scopesFor(c *Client, f form) ([]string, error) {
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
func (r *registry) scopeLevel(scope []string) int {
	level := 0
	for _, name := range scope {
		level = max(level, r.scopes[name].Level)
	}
	return level
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
func (r *registry) may(c *Client, a ask) error {
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
		if a.Grant == grantClientCredentials && r.scopes[name].Level > 0 {
			return invalidScope(nil, "a scope needs a person")
		}
	}
	if a.Provider != "" && !slices.Contains(r.usable(c), a.Provider) {
		return accessDenied(errProvider)
	}
	if !isSubset(a.Resources, c.Audiences) {
		return invalidTarget(nil) // RFC 8707 2
	}
	return nil
}

// usageLimit returns how often an access token of these scopes may be used: the lowest limit of them. 0: unlimited.
// (docs/decisions.md, "Usage limits")
func (r *registry) usageLimit(scope []string) int {
	limit := 0
	for _, name := range scope {
		if l := r.scopes[name].UsageLimit; l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	return limit
}
