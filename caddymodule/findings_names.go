package caddymodule

import (
	"fmt"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
)

// standardScopes are those that OpenID Connect and Gatehouse give a meaning.
var standardScopes = append(slices.Clone(client.StandardScopes), "scim")

// Known returns the names that the configuration knows.
func (a *App) Known() policy.Names {
	known := policy.Names{Scopes: slices.Clone(standardScopes), Providers: []string{provider.OwnID}}
	known.DeviceBound = a.persons.Session.DeviceBound
	for _, s := range a.authz.Scopes {
		known.Scopes = append(known.Scopes, s.Name)
	}
	for _, c := range a.authz.Clients {
		known.Scopes = append(known.Scopes, c.Scopes...)
		known.Clients = append(known.Clients, c.ID)
	}
	for _, p := range a.persons.Persons {
		known.Groups = append(known.Groups, p.Groups...)
	}
	for i := range a.persons.Providers {
		known.Providers = append(known.Providers, a.persons.Providers[i].ID)
	}
	return known
}

// checkNames finds names that are allowed and probably misspelled, and options without effect.
func (a *App) checkNames() {
	known := slices.Clone(standardScopes)
	for _, s := range a.authz.Scopes {
		known = append(known, s.Name)
	}
	for _, c := range a.authz.Clients {
		for _, f := range caddyfileutil.Unknown(c.Scopes, known) {
			a.warn("client "+c.ID+": scopes", fmt.Sprintf("client %s: no scope block and no standard has the scope %q", c.ID, f.Name),
				fmt.Sprintf("did you mean %q?", f.Near))
		}
	}
	for _, c := range a.authz.APIClients {
		if slices.Contains(c.APIs, "credentials") && a.credentials.IsZero() {
			a.warn("api_client "+c.ID+": apis", fmt.Sprintf("api_client %s: the credentials API takes no passwords", c.ID),
				"add `identity { credentials_key ... }`")
		}
	}
	clients := a.Known().Clients
	for _, c := range a.authz.APIClients {
		clients = append(clients, c.ID)
	}
	for _, f := range caddyfileutil.Unknown(a.vouching, clients) {
		a.warn("identity: scim_verifies_emails", fmt.Sprintf("identity: scim_verifies_emails: the configuration has no client %q", f.Name),
			fmt.Sprintf("did you mean %q?", f.Near))
	}
}
