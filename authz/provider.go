package authz

import (
	"fmt"
	"slices"
)

// ourParameters have a meaning in an authorization request, so that no provider may want them.
var ourParameters = []string{
	"acr_values", "app_view", "audience", "cancel", "again", "claims", "claims_locales", "client_id", "client_secret", "code_challenge",
	"code_challenge_method", "display", "external_idp", "flow", "id_token_hint", "idp", "language", "login_hint", "max_age", "nonce", "prompt",
	"redirect_uri", "registration", "request", "request_uri", "resource", "response_mode", "response_type", "scope", "state", "ui_locales",
}

// Validate says what is wrong with a provider, all of it at once, or returns nil.
func (v Provider) Validate() error {
	var p problems
	p.addErr(checkID(v.ID))
	for _, name := range v.Parameters {
		switch {
		case name == "" || len(name) > maxCustomKey || !isText(name):
			p.addf("parameters: %q is not the name of a parameter", name)
		case slices.Contains(ourParameters, name):
			p.addf("parameters: %q has a meaning of its own", name)
		}
	}
	if err := p.join(); err != nil {
		return fmt.Errorf("idp %q: %w", v.ID, err)
	}
	return nil
}

// checkProviders refuses a client that may use a provider which does not exist.
func (r *registry) checkProviders(c *Client) error {
	for _, id := range c.IDPs {
		if _, ok := r.providers[id]; !ok {
			return fmt.Errorf("client %q: idps: there is no identity provider %q", c.ID, id)
		}
	}
	return nil
}

// usable returns the providers that a client may use now, its default first: one that is disabled, or gone since the client was added by
// command, is of no use to anybody.
func (r *registry) usable(c *Client) []string {
	gone := func(id string) bool {
		p, ok := r.providers[id]
		return !ok || p.Disabled
	}
	if !slices.ContainsFunc(c.IDPs, gone) {
		return c.IDPs
	}
	return slices.DeleteFunc(slices.Clone(c.IDPs), gone)
}
