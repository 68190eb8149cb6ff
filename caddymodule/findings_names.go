package caddymodule

import (
	"fmt"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/trust"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/identity/config"
)

// standardScopes are those that OpenID Connect and Gatehouse give a meaning.
var standardScopes = append(slices.Clone(client.StandardScopes), "scim")

// Known returns the names that the configuration knows.
func (a *App) Known() policy.Names {
	known := policy.Names{Scopes: slices.Clone(standardScopes), Providers: []string{provider.OwnID}}
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
		for _, f := range options.Unknown(c.Scopes, known) {
			a.warn("client "+c.ID+": scopes", fmt.Sprintf("client %s: no scope block and no standard has the scope %q", c.ID, f.Name), fmt.Sprintf("did you mean %q?", f.Near))
		}
	}
	for _, c := range a.authz.APIClients {
		if slices.Contains(c.APIs, "credentials") && a.credentials.IsZero() {
			a.warn("api_client "+c.ID+": apis", fmt.Sprintf("api_client %s: the credentials API takes no passwords", c.ID), "add `identity { credentials_key ... }`")
		}
	}
	a.checkAttributes()
	for i := range a.authz.Trusted {
		a.checkMatches(&a.authz.Trusted[i])
	}
	clients := a.Known().Clients
	for _, c := range a.authz.APIClients {
		clients = append(clients, c.ID)
	}
	for _, f := range options.Unknown(a.vouching, clients) {
		a.warn("identity: scim_verifies_emails", fmt.Sprintf("identity: scim_verifies_emails: the configuration has no client %q", f.Name), fmt.Sprintf("did you mean %q?", f.Near))
	}
}

// checkAttributes finds attributes of service providers that are probably misspelled.
func (a *App) checkAttributes() {
	for i := range a.persons.ServiceProviders.Providers {
		p := &a.persons.ServiceProviders.Providers[i]
		warn := func(option, word, without string) {
			if meant := config.MeantClaim(word); meant != "" {
				option = kindSP + " " + p.ID + ": " + option
				a.warn(option, fmt.Sprintf("%s: no person has the attribute %q, so %s", option, word, without), fmt.Sprintf("did you mean %q?", meant))
			}
		}
		for _, at := range p.Attributes {
			option := "attributes"
			if a.Places[kindSP+" "+p.ID+": attributes"] == "" {
				option = "attribute"
			}
			warn(option, at.Source, "it is probably never told")
		}
		warn("name_id", p.Subject.Attribute, "probably nobody has a name there")
	}
}

// checkMatches finds patterns that no token of a trusted issuer fits.
func (a *App) checkMatches(r *trust.Rule) {
	for _, m := range r.Match {
		for _, pattern := range m.Patterns {
			if instead := trust.Longer(m.Claim, pattern); instead != "" {
				option := "trust_issuer " + r.Issuer + ": match"
				a.warn(option, fmt.Sprintf("%s %s %s: subjects that begin so have more parts between colons, and a * does not stand for a colon, so the pattern fits no token", option, m.Claim, pattern), "write for example "+instead)
			}
		}
	}
}
