package caddymodule

import (
	"context"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/scim"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// pathHandler serves the paths that it names, and those below each that ends with a slash.
type pathHandler interface {
	http.Handler
	Paths() []string
}

// openAPIs makes the JSON APIs of the identity service, for API clients.
func (i *instance) openAPIs(a *App) error {
	i.gate = &jsonapi.Gate{
		Authorize: i.authz.AuthorizeAPI, Secure: isSecure, Partitioned: i.identity.Person.Partitioned(), Partitions: i.authz.PartitionsOf,
		Has: i.authz.Clients().HasAPI,
		Log: a.log.Named("api"), Refusals: i.core.Refused, Issuer: i.issuer.String(),
	}
	values := settings.NewAPI(i.config, i.gate, i.pages.ReloadExtension)
	i.apis = append(i.apis, newOpenAPI(i.issuer.String(), i.gate.Log), values, newExplainer(i.gate, values.On, a.Instance), i.openAuthZEN(a))
	served, err := api.New(api.Deps{
		Store: i.core.Store, Gate: i.gate, Units: i.config.Units, Subject: i.identity.Person.Get, Identity: i.identity,
		CredentialsKey: a.credentials, MaxLevel: i.authz.MaxLevelOf, Origin: a.Origin,
	})
	if err != nil {
		return err
	}
	i.apis = append(i.apis, served, access.NewAPI(i.access, access.APIDeps{Gate: i.gate, PartitionOf: person.PartitionOfID, Origin: a.Origin}))
	persons, err := scim.New(scim.Deps{
		Identity: i.identity, Issuer: i.issuer.String(), Authorize: i.provisioner(a.Origin, a.vouching), Enabled: i.personAPI,
		Refusals: i.core.Refused, Log: a.log.Named("scim"),
	})
	if err != nil {
		return err
	}
	i.apis = append(i.apis, persons)
	return nil
}

// isSecure reports whether the request came by https or from this machine. For one of Caddy's trusted_proxies, even on
// this machine, the request to the proxy counts.
func isSecure(r *http.Request) bool {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if v := r.Header.Get("X-Forwarded-Proto"); v != "" {
			return v == "https"
		}
	}
	return jsonapi.Secure(r)
}

// serveAPI serves the request if its path belongs to an API.
func (i *instance) serveAPI(w http.ResponseWriter, r *http.Request) bool {
	for _, h := range i.apis {
		if under(r.URL.Path, h.Paths()) {
			h.ServeHTTP(w, r)
			return true
		}
	}
	return false
}

// organisationOf returns the id of the organisation that an API client belongs to, or "". A client whose organisation
// is gone may do nothing.
func (i *instance) organisationOf(ctx context.Context, apiClient string) (string, error) {
	id, exists, err := i.config.OrganisationOfClient(ctx, apiClient)
	if err == nil && id != "" && !exists {
		err = fmt.Errorf("the organisation of the API client is gone: %w", authn.ErrNotAllowed)
	}
	return id, err
}
