package caddymodule

import (
	"context"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity"
)

// authzProviders tells authz of the providers that identity knows.
type authzProviders struct{ identity *identity.Service }

// Providers implements authz.Providers.
func (a authzProviders) Providers(ctx context.Context) ([]clientstore.Provider, uint64, error) {
	list, version, err := a.identity.Federation.Providers(ctx)
	if err != nil {
		return nil, 0, err
	}
	var out []clientstore.Provider
	for _, p := range list {
		if p.Managed {
			out = append(out, clientstore.Provider{ID: p.ID, Disabled: p.Disabled, Managed: true})
		}
	}
	return out, version, nil
}
