package caddymodule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/core"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/site"
)

// Found adds a finding about this configuration, and logs it. One that is there already is not logged again.
func (a *App) Found(f finding.Finding) {
	if !a.findings.Add(f) {
		return
	}
	finding.Report(f)
	if f.Severity == finding.Warning { // an error stops the start, and is logged with that
		a.logFinding(f)
	}
}

func (a *App) logFinding(f finding.Finding) {
	a.log.Warn(f.Reason, zap.String("mend", f.Mend), zap.String("at", f.Place))
}

// warn adds a warning about an option.
func (a *App) warn(option, reason, mend string) {
	a.Found(finding.Finding{Severity: finding.Warning, Place: a.Places.Of(option), Reason: reason, Mend: mend, About: option})
}

// standardScopes are those that OpenID Connect and Gatehouse give a meaning.
var standardScopes = append(slices.Clone(client.StandardScopes), "scim")

// Known returns the scopes and groups that the configuration names.
func (a *App) Known() (scopes, groups []string) {
	scopes = slices.Clone(standardScopes)
	for _, s := range a.authz.Scopes {
		scopes = append(scopes, s.Name)
	}
	for _, c := range a.authz.Clients {
		scopes = append(scopes, c.Scopes...)
	}
	for _, p := range a.persons.Persons {
		groups = append(groups, p.Groups...)
	}
	return scopes, groups
}

// checkNames finds names that are allowed and probably misspelled, and options without effect.
func (a *App) checkNames() {
	known := slices.Clone(standardScopes)
	for _, s := range a.authz.Scopes {
		known = append(known, s.Name)
	}
	for _, c := range a.authz.Clients {
		for _, f := range options.UnknownScopes(c.Scopes, known) {
			a.warn("client "+c.ID+": scopes", fmt.Sprintf("client %s: no scope block and no standard has the scope %q", c.ID, f.Name), fmt.Sprintf("did you mean %q?", f.Near))
		}
	}
	for _, c := range a.authz.APIClients {
		if slices.Contains(c.APIs, "credentials") && a.credentials.IsZero() {
			a.warn("api_client "+c.ID+": apis", fmt.Sprintf("api_client %s: the credentials API takes no passwords", c.ID), "add `identity { credentials_key ... }`")
		}
	}
}

// checkBootstrap looks at the settings that an empty storage would start with.
func (a *App) checkBootstrap() {
	if kf, ok := a.storage.(core.KeyFiler); ok {
		if _, exists := kf.KeyFile(); exists {
			return // the settings are in the storage
		}
	}
	a.missingSenders(a.initial, func(option, reason, mend string) {
		f := finding.Finding{Severity: finding.Warning, Place: a.Places.Of(option), Reason: reason, Mend: mend, About: option}
		a.firsts = append(a.firsts, f) // not among the findings: from the start on the settings of the storage count
		finding.Report(f)
		a.logFinding(f)
	})
}

// checkSites looks at the sites that Caddy serves. The http app may have asked for this app in the middle of its own
// Provision; otherwise it is provisioned now, which is why this comes after everything that its handlers ask for.
func (a *App) checkSites() error {
	found, err := a.ctx.AppIfConfigured("http")
	if err != nil && !errors.Is(err, caddy.ErrNotConfigured) {
		return err
	}
	app, ok := found.(*caddyhttp.App)
	if !ok {
		app = new(caddyhttp.App)
	}
	site.ReadFromRight(app)
	a.tree = site.Read(app)
	a.checkProxies(app)
	for _, f := range a.tree.Check(a.issuer, a.Places.Of("issuer"), a.served.Load()) {
		a.Found(f)
	}
	a.mu.Lock()
	places := a.resourcesAt
	a.mu.Unlock()
	for _, place := range places {
		a.checkReach(place)
	}
	if err := a.findings.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	return nil
}
