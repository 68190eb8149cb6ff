package client

import "slices"

// Acceptance says which access tokens a site accepts. A token opens no site that it was not made for: a client whose
// consent page reads "sign in" does not get what the person can do at a site. (docs/decisions/gateway.md#bearer-tokens)
type Acceptance struct {
	// Origins are those of the site: a token that names one of them as its resource (RFC 8707) is meant for it.
	Origins []string
	// Audience are the resources of which a token must name at least one. Empty: a token can name none.
	Audience []string
	// Scopes are those that a token must have, all of them.
	Scopes []string
	// Clients are the only ones whose tokens are accepted. Empty: any.
	Clients []string
	// Login says that people sign in at the site, which has the rights of people then and not those of clients.
	Login bool
	// Any accepts tokens that nothing of the above names.
	Any bool
}

// Meant reports whether a token with an audience can be used at the site.
func (a *Acceptance) Meant(audience []string) bool {
	if len(a.Audience) > 0 {
		return hasAny(audience, a.Audience)
	}
	return len(audience) == 0 || hasAny(audience, a.Origins)
}

// Lists reports whether the tokens of a client are accepted.
func (a *Acceptance) Lists(id string) bool {
	return len(a.Clients) == 0 || slices.Contains(a.Clients, id)
}

// Names reports whether the site names a token that is Meant for it: by an audience, by scopes, or by its client. What
// names the token of a stranger must be more than the stranger can ask for without the site: a client that no operator
// has registered is named by an audience, or by a scope that is not one of OpenID Connect.
func (a *Acceptance) Names(audience []string, stranger bool) bool {
	switch {
	case a.Any, len(a.Audience) > 0, slices.ContainsFunc(a.Scopes, isOwnScope):
		return true
	case stranger:
		return false
	}
	return !a.Login || len(a.Scopes)+len(a.Clients) > 0 || hasAny(audience, a.Origins)
}

// Opens reports whether a client can open the site with a token of these scopes and resources.
func (a *Acceptance) Opens(c *Client, scopes, resources []string) bool {
	missing := func(scope string) bool { return !slices.Contains(scopes, scope) }
	return a.Meant(resources) && a.Lists(c.ID) && a.Names(resources, c.IsStranger()) && !slices.ContainsFunc(a.Scopes, missing)
}

// NamesInRule reports whether a rule that asks for these scopes and clients names a token.
func NamesInRule(scopes, clients []string, stranger bool) bool {
	return slices.ContainsFunc(scopes, isOwnScope) || !stranger && len(scopes)+len(clients) > 0
}

// isOwnScope reports whether a scope is one of the operator and not of OpenID Connect, which every client can ask for.
func isOwnScope(scope string) bool { return !slices.Contains(StandardScopes, scope) }

// IsStranger reports whether no operator has registered the client.
func (c *Client) IsStranger() bool { return c.Document != nil }

func hasAny(list, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return HasResource(list, w) })
}
