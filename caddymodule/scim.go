package caddymodule

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/identity/scim"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// scimScope is the scope of a client that may provision persons and groups.
const scimScope = "scim"

// provisioner identifies the sender of a request to SCIM: an API client with persons, or a client whose own token has
// the scope scim. A person's token is refused: the consent of one person gives no authority over all.
// Those that vouch say of addresses that they are the person's.
func (i *instance) provisioner(origin func(*http.Request) audit.Origin, vouching []string) func(*http.Request) (scim.Caller, error) {
	return func(r *http.Request) (out scim.Caller, err error) {
		credentials := r.Header.Values("Authorization")
		if len(credentials) != 1 {
			return out, authn.ErrNoCredentials
		}
		var client string
		if scheme, token, ok := strings.Cut(credentials[0], " "); ok && strings.EqualFold(scheme, "bearer") { // RFC 6750 2.1
			if client, err = i.provisioningClient(r.Context(), token); err == nil {
				err = i.gate.Check(r)
			}
		} else {
			client, err = i.gate.Admit(r, "persons")
			out.Partitions = i.authz.PartitionsOf(client)
		}
		if err != nil {
			return scim.Caller{}, err
		}
		out.Vouches = slices.Contains(vouching, client)
		out.Actor = audit.Actor{ID: client, Name: client, Origin: origin(r)}
		return out, nil
	}
}

func (i *instance) provisioningClient(ctx context.Context, text string) (string, error) {
	who, err := i.authz.Introspect(ctx, text)
	if err == nil {
		who = who.For(token.Confirmation{}) // nothing is proved here
	}
	if err == nil && who.Active && who.UsageLimit > 0 {
		who, err = i.authz.Use(ctx, text)
	}
	switch {
	case err != nil:
		return "", err
	case !who.Active:
		return "", authn.ErrNoCredentials
	case who.Person != nil, !slices.Contains(who.Scope, scimScope):
		return "", authn.ErrNotAllowed
	case !who.MeantFor(i.issuer.String(), i.issuer.String()+"/scim/v2"):
		return "", authn.ErrNotAllowed // RFC 8707: it is meant for another resource
	}
	return who.ClientID, nil
}

// personAPI reports whether SCIM is switched on.
func (i *instance) personAPI(ctx context.Context) (bool, error) {
	units, err := i.config.Current(ctx)
	if err != nil {
		return false, err
	}
	return units.Features.PersonAPIEnabled, nil
}
