package caddymodule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/idp"
)

// A party is an identity provider or a service provider. A problem with the files of one must not keep the others from
// working, so it is a finding and not an error: here while a configuration is loaded, in examine while it runs.

const (
	kindIDP = "idp"
	kindSP  = "service_provider"
)

// party returns the finding about one party.
func (a *App) party(kind, id string, w idp.Warning) diagnostic.Finding {
	option := kind + " " + id
	tries := "`caddy gatehouse idp test " + id + "` tries it"
	fix := "replace the file with a correct one, and run `caddy reload --force`; " + tries
	switch {
	case w.Advice != "":
		fix = w.Advice
	case kind == kindSP:
		fix = "put newer metadata there, or its https address, from which it is fetched regularly"
	case strings.Contains(w.Reason, "metadata"):
		fix = "replace the file with a correct one, or use the https address of its metadata, which is fetched regularly; " + tries
	}
	return diagnostic.Finding{
		Severity: diagnostic.Warning, Place: a.Places.Of(option + ": metadata"), Reason: option + ": " + w.Reason,
		Fix: fix, About: option,
	}
}

// reportFaults reports files and the like that options name and that cannot be used.
func (a *App) reportFaults(faults []caddyfileutil.Fault) {
	for _, f := range faults {
		a.warn(f.Option, f.Reason, f.Fix)
	}
}

// checkParties reports what is wrong with the files of identity providers and service providers.
func (a *App) checkParties() {
	for i := range a.persons.Providers {
		id := a.persons.Providers[i].ID
		for _, f := range a.idps.Faults(id) {
			if f.Watched {
				a.first(a.party(kindIDP, id, idp.Warning{Reason: f.Reason}))
				continue
			}
			a.warn(kindIDP+" "+id+": "+f.Option, kindIDP+" "+id+": "+f.Reason, f.Fix)
		}
	}
	now := time.Now()
	for i := range a.persons.ServiceProviders.Providers {
		p := &a.persons.ServiceProviders.Providers[i]
		for _, w := range p.Warnings(now) {
			a.first(a.party(kindSP, p.ID, w))
		}
	}
	if fault := a.extensionFault; fault != nil {
		a.first(a.extensionFinding(fault))
	}
}

func (a *App) extensionFinding(fault error) diagnostic.Finding {
	return diagnostic.Finding{
		Severity: diagnostic.Warning, Place: a.Places.Of("identity: extension"),
		Reason: "identity: extension: something is left out: " + strings.ReplaceAll(fault.Error(), "\n", "; "),
		Fix:    "correct it, and run `caddy reload --force`", About: "identity: extension",
	}
}

// parties returns what keeps people from signing in at each party, now or within 30 days.
func (i *instance) parties(ctx context.Context) (map[string]map[string][]idp.Warning, error) {
	units, err := i.config.Current(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]map[string][]idp.Warning{
		kindIDP: i.providers.Warnings(ctx), kindSP: i.identity.ServiceProviders.Warnings(ctx, units),
	}, nil
}

// examineParties adds a finding for everything that is wrong with a party.
func (i *instance) examineParties(ctx context.Context, a *App, found func(diagnostic.Finding)) error {
	all, err := i.parties(ctx)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		for _, id := range slices.Sorted(maps.Keys(all[kind])) {
			for _, w := range all[kind][id] {
				found(a.party(kind, id, w))
			}
		}
	}
	if len(a.persons.ServiceProviders.Sign) > 0 {
		if faults, none := i.identity.ServiceProviders.KeyFaults(ctx); faults != nil {
			reason := fmt.Sprintf("saml_sign: service providers that know only this key pair refuse sign-ins: %v", faults)
			if none {
				reason = fmt.Sprintf("saml_sign: no one can sign in at any service provider: %v", faults)
			}
			found(diagnostic.Finding{
				Severity: diagnostic.Warning, Place: a.Places.Of("saml_sign"), Reason: reason, About: "saml_sign",
				Fix: "name a key pair of the settings with an RSA key, or remove the option",
			})
		}
	}
	if fault := i.pages.ExtensionFault(); fault != nil {
		found(a.extensionFinding(fault))
	}
	return nil
}

// partyProblems counts the problems of each party, for the metrics.
func (i *instance) partyProblems(ctx context.Context) (map[[2]string]int, error) {
	all, err := i.parties(ctx)
	out := map[[2]string]int{}
	for kind, list := range all {
		for id, warnings := range list {
			out[[2]string{kind, id}] = len(warnings)
		}
	}
	return out, err
}

// logParties logs once a day what keeps people from signing in at a party. Problems at the start were logged then.
func (i *instance) logParties(ctx context.Context, a *App) {
	ticker := time.NewTicker(24 * time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := i.examineParties(ctx, a, a.logFinding); err != nil && ctx.Err() == nil {
			i.log.Error("identity providers and service providers cannot be checked", zap.Error(err))
		}
	}
}
