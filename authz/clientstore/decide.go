package clientstore

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Wish is the part of a grant that a token request asks for. An empty member asks for all of it.
type Wish struct {
	Scope     []string
	Resources []string // client.OwnResources
	Details   string   // authorization details that DetailsFor has read
}

// WishOf reads the resources and authorization details that a token request asks for, and refuses those that the client
// is not allowed at all. The scope is left to the grants that take one. (RFC 8707 2.2, RFC 9396 6)
func (r *Registry) WishOf(c *client.Client, f oauth.Form) (Wish, error) {
	details, err := r.DetailsFor(f)
	if err != nil {
		return Wish{}, err
	}
	w := Wish{Resources: c.OwnResources(f.All("resource")), Details: details}
	return w, r.May(c, Permission{Resources: w.Resources, Details: w.Details})
}

// Granted is a person's grant to a client.
type Granted struct {
	Scope     []string
	Resources []string
	Details   string
	Provider  string         // that the person has signed in by
	Person    *authn.Subject // whose identity must be assured as the scopes demand
	// Whole refuses a request if one of the scopes needs an identity that is better assured. Otherwise it is left out.
	Whole bool
}

// Allowed is the part of a grant that a token may have.
type Allowed struct {
	Scope     []string
	Resources []string
	Details   string
	// GrantDetails are those of the granted authorization details that the client is still allowed.
	GrantDetails string
	// Limited says that the uses of the token are limited. A refresh token would lift the limit, so it is not given with
	// one, nor taken for one. (docs/decisions/tokens.md#usage-limits)
	Limited bool
}

// Decide returns what a token may have of a grant at a time: what the client asks for, which must be within what was
// granted, as far as the client is still allowed it and the person is still assured well enough. Every token of a
// person passes here that the token endpoint gives for a code, a refresh token, a device code, a password or an
// identity assertion. (RFC 6749 6, RFC 8707 2.2, RFC 9396 6.1)
func (r *Registry) Decide(c *client.Client, w Wish, g Granted, now time.Time) (Allowed, error) {
	a := Allowed{Scope: r.StillGiven(c, g.Scope, g.Person, now), GrantDetails: r.StillDetailed(c, g.Details)}
	if g.Whole && len(a.Scope) < len(g.Scope) {
		return Allowed{}, oauth.InvalidScope(nil, "a scope needs a person whose identity is better assured")
	}
	if !client.IsSubset(w.Scope, a.Scope) {
		return Allowed{}, oauth.InvalidScope(nil, "scope is more than was granted")
	}
	if len(a.Scope) == 0 && a.GrantDetails == "" {
		return Allowed{}, oauth.InvalidScope(nil, "none of the scopes is allowed any more")
	}
	if len(w.Scope) > 0 {
		a.Scope = w.Scope
	}
	var err error
	if a.Details, err = r.NarrowDetails(w.Details, a.GrantDetails); err != nil {
		return Allowed{}, err
	}
	if a.Resources, err = NarrowAudience(c, w.Resources, g.Resources); err != nil {
		return Allowed{}, err
	}
	a.Limited = r.UsageLimit(a.Scope) > 0
	return a, r.May(c, Permission{Scope: a.Scope, Provider: g.Provider, Resources: a.Resources, Details: a.Details})
}

// NarrowAudience returns the resources of a token: the requested ones, or all granted ones if none was requested. If
// the authorization named resources, others are refused (RFC 8707 2.2). If it named none, so is each one that the
// person was not asked about: what opens a site is on the page of the consent, and not added to it later.
func NarrowAudience(c *client.Client, asked, granted []string) ([]string, error) {
	if len(asked) == 0 {
		return granted, nil
	}
	for _, r := range asked {
		if (len(granted) > 0 || c.AsksConsent()) && !client.HasResource(granted, r) {
			return nil, oauth.InvalidTarget(nil, "the resource "+oauth.Quoted(r)+" was not granted")
		}
	}
	return asked, nil
}
