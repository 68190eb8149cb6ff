package clientstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
)

// ourParameters have a meaning in an authorization request, so no provider can ask for them.
var ourParameters = []string{
	"acr_values", "app_view", "audience", "cancel", "again", "claims", "claims_locales", "client_id", "client_secret", "code_challenge",
	"code_challenge_method", "display", "external_idp", "flow", "id_token_hint", "idp", "language", "login_hint", "max_age", "nonce", "prompt",
	"redirect_uri", "registration", "request", "request_uri", "resource", "response_mode", "response_type", "scope", "state", "ui_locales",
}

// maxParameterName bounds the bytes of the name of a parameter.
const maxParameterName = 64

// Validate returns all that is wrong with a provider, or nil.
func (v Provider) Validate() error {
	var p client.Problems
	p.AddErr(client.CheckID(v.ID))
	for _, name := range v.Parameters {
		switch {
		case name == "" || len(name) > maxParameterName || !client.IsText(name):
			p.Addf("parameters: %q is not the name of a parameter", name)
		case slices.Contains(ourParameters, name):
			p.Addf("parameters: %q has a meaning of its own", name)
		}
	}
	if err := p.Join(); err != nil {
		return fmt.Errorf("idp %q: %w", v.ID, err)
	}
	return nil
}

// providerSet is the providers of one moment by their ids, the disabled ones included.
type providerSet struct {
	version uint64
	byID    map[string]Provider
	managed []string // those that go with identity, switched on
}

// loadProviders reads the current providers. All requests share the result until the next call, and every request for
// which providers matter calls it.
func (r *Registry) loadProviders(ctx context.Context) error {
	if r.deps.Providers == nil {
		return nil
	}
	list, version, err := r.deps.Providers.Providers(ctx)
	if err != nil {
		return fmt.Errorf("read the identity providers: %w", err)
	}
	if now := r.providers.Load(); now != nil && now.version == version && now.version != 0 {
		return nil
	}
	set := &providerSet{version: version, byID: maps.Clone(r.declared)}
	for _, p := range list {
		if _, ok := r.declared[p.ID]; ok {
			continue
		}
		set.byID[p.ID] = p
		if p.Managed && !p.Disabled {
			set.managed = append(set.managed, p.ID)
		}
	}
	r.providers.Store(set)
	return nil
}

// RefreshProviders is loadProviders for a request.
func (r *Registry) RefreshProviders(ctx context.Context) error {
	return oauth.StorageError(r.loadProviders(ctx))
}

// RefreshProvider is RefreshProviders for a request that one provider matters to. One of the configuration needs no
// read: it stays as it is.
func (r *Registry) RefreshProvider(ctx context.Context, id string) error {
	if _, ok := r.declared[id]; ok {
		return nil
	}
	return r.RefreshProviders(ctx)
}

// ParametersFor returns the parameters of an authorization request that one of the client's providers wants.
func (r *Registry) ParametersFor(c *client.Client) (names []string) {
	known := r.providers.Load().byID
	for _, id := range r.Usable(c) {
		names = append(names, known[id].Parameters...)
	}
	return names
}

// checkProviders refuses a client with an unknown provider.
func (r *Registry) checkProviders(c *client.Client) error {
	known := r.providers.Load().byID
	for _, id := range c.IDPs {
		if _, ok := known[id]; !ok {
			return client.Invalidf("client %q: idps: there is no identity provider %q", c.ID, id)
		}
	}
	return nil
}

// Usable returns the providers that a client can use now, its default first. Disabled and removed ones are left out. A
// client of the identity service can use the providers that it manages.
func (r *Registry) Usable(c *client.Client) []string {
	set := r.providers.Load()
	gone := func(id string) bool {
		p, ok := set.byID[id]
		return !ok || p.Disabled
	}
	out := c.IDPs
	if slices.ContainsFunc(out, gone) {
		out = slices.DeleteFunc(slices.Clone(out), gone)
	}
	if len(set.managed) == 0 || !slices.Contains(out, client.DefaultProvider) {
		return out
	}
	out = slices.Clone(out)
	for _, id := range set.managed {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Provider is an identity provider that clients can use.
type Provider struct {
	ID       string
	Disabled bool
	// Managed providers belong to the identity service, and its clients can use them.
	Managed bool
	// Parameters of an authorization request go into the details of a person who signs in by the provider.
	Parameters []string
}

// Providers knows the identity providers that come and go while the server runs.
type Providers interface {
	// Providers returns all current providers except identity, the disabled ones included. The version changes with
	// them. An error is a failure.
	Providers(ctx context.Context) (list []Provider, version uint64, err error)
}
