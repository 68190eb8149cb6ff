package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/inventory"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy/stored"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// policyUse is a site that names a policy.
type policyUse struct{ policy, site, place string }

// UsePolicy implements protect.App.
func (a *App) UsePolicy(name, site, place string) *policy.Policy {
	found := a.Policies[name]
	if site == "" {
		return found
	}
	use := policyUse{name, site, place}
	a.mu.Lock()
	known := slices.Contains(a.policyUses, use)
	if !known {
		a.policyUses = append(a.policyUses, use)
	}
	a.mu.Unlock()
	if found == nil && !known {
		// The storage may have it, which is unknown before the start: examinePolicies checks that.
		f := a.missingPolicy(use)
		diagnostic.Report(f)
		a.log.Info(f.Reason, zap.String("fix", f.Fix), zap.String("at", f.Place))
	}
	return found
}

// missingPolicy returns the finding about a site that names a missing policy.
func (a *App) missingPolicy(u policyUse) diagnostic.Finding {
	const reason = "the policy %s is not in the Caddyfile: until the configuration API has it, the site %s refuses everybody"

	fix := fmt.Sprintf("write it in the global block, as `policy %s { ... }`, or store it by the configuration API", u.policy)
	if meant := spelling.Word(u.policy, slices.Collect(maps.Keys(a.Policies))); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	return diagnostic.Finding{
		Severity: diagnostic.Warning, Place: u.place, Reason: fmt.Sprintf(reason, u.policy, siteOf(u.site)), Fix: fix,
		About: "site " + siteOf(u.site),
	}
}

// siteOf returns a site without its place.
func siteOf(user string) string {
	site, _, _ := strings.Cut(user, " (")
	return site
}

// usesOfPolicies returns the sites that name policies.
func (a *App) usesOfPolicies() []policyUse {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.policyUses)
}

// policyUsers returns the sites that name a policy, for settings.Config.
func (a *App) policyUsers(name string) (out []string) {
	for _, use := range a.usesOfPolicies() {
		if use.policy == name && !slices.Contains(out, use.site) {
			out = append(out, use.site)
		}
	}
	slices.Sort(out)
	return out
}

// policyLoader prepares the policies of the configuration API.
func (a *App) policyLoader() stored.Loader {
	return stored.Loader{Ctx: a.ctx, CheckPublic: sitepath.CheckPublic}
}

// fixedPolicies are the policies of the Caddyfile, as they are written there: Provision resolves their placeholders.
func (a *App) fixedPolicies() map[string]settings.FixedPolicy {
	out := map[string]settings.FixedPolicy{}
	for name, p := range a.Policies {
		out[name] = settings.FixedPolicy{
			Place:  a.Places.Of("policy " + name),
			Policy: settings.Policy{Deny: inventory.SettingsOf(p.Deny), Allow: inventory.SettingsOf(p.Allow), Public: slices.Clone(p.Public)},
		}
	}
	return out
}

// examinePolicies warns of missing policies that sites name, and of policies of the configuration API that have no
// effect.
func (i *instance) examinePolicies(a *App, units *settings.Units, book *policy.Book, found func(diagnostic.Finding)) {
	warn := func(place, reason, fix string) {
		found(diagnostic.Finding{Severity: diagnostic.Warning, Place: place, Reason: reason, Fix: fix, About: "policies"})
	}
	for _, use := range a.usesOfPolicies() {
		if a.Policies[use.policy] != nil || book.Named(use.policy) != nil {
			continue
		}
		if _, ok := units.Policies[use.policy]; ok {
			warn(use.place, fmt.Sprintf("the policy %s of the configuration API cannot be used, so the site %s refuses everybody", use.policy,
				siteOf(use.site)), "store it again by the configuration API: the log says what is wrong")
			continue
		}
		found(a.missingPolicy(use))
	}
	for _, name := range slices.Sorted(maps.Keys(book.All())) {
		if f, ok := book.Named(name).DeniesAlone(name); ok && a.Policies[name] == nil {
			found(f)
		}
	}
	overruled := i.config.OverruledPolicies(units)
	for _, name := range slices.Sorted(maps.Keys(overruled)) {
		warn(overruled[name], fmt.Sprintf("policy %s: the configuration API has a policy of this name too, which has no effect", name),
			"remove it there, or rename this one")
	}
}
