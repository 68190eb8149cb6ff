package config

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// OrganisationByAPIClient returns the organisation that an API client belongs to, or nil. An earlier version has
// accepted one name for several organisations: the first one counts.
func (u *Units) OrganisationByAPIClient(name string) *Organisation {
	for i := range u.Organisations {
		if o := &u.Organisations[i]; name != "" && o.UsernameForBasicAuth == name {
			return o
		}
	}
	return nil
}

// seenBy returns the state as an API client sees it. To one of an organisation there are no others.
// (docs/decisions/pages.md#api-clients-of-organisations)
func (st *state) seenBy(client string) *state {
	own := st.units.OrganisationByAPIClient(client)
	if own == nil {
		return st
	}
	seen, u := *st, *st.units
	u.Organisations = []Organisation{*own}
	seen.units = &u
	return &seen
}

// confine puts what an API client has made of its organisation into the units that it does not see, or refuses what is
// not its own. from is how everything was.
func (u *Units) confine(ctx context.Context, from *Units, e edit, reserved func(context.Context, string) (bool, error)) (err error) {
	own := from.OrganisationByAPIClient(e.client)
	for name := range e.sent {
		if name != "organisations" {
			return notOwn(name)
		}
	}
	if len(u.Organisations) != 1 || u.Organisations[0].ID != own.ID || u.Organisations[0].UsernameForBasicAuth != own.UsernameForBasicAuth {
		return notOwn("the id and the username_for_basic_auth of the organisation, and every other organisation,")
	}
	now := u.Organisations[0]
	u.Organisations = from.clone().Organisations
	u.Organisations[slices.IndexFunc(from.Organisations, func(o Organisation) bool { return o.ID == own.ID })] = now
	for _, c := range changes(from, u) {
		if c.unit != "organisations" {
			return notOwn(c.Path)
		}
	}
	for id := range now.ServiceProviders {
		if _, has := own.ServiceProviders[id]; has {
			continue
		}
		taken := from.OrganisationOf(id) != nil
		if !taken && reserved != nil {
			if taken, err = reserved(ctx, id); err != nil {
				return err
			}
		}
		if taken {
			return refusal("organisations[0].service_providers."+shown(id), "is an application of another organisation, or of the server")
		}
	}
	return nil
}

// notOwn refuses what is not of the organisation of an API client.
func notOwn(what string) error {
	return &rest.Error{Status: http.StatusForbidden, Message: what + " cannot be changed by the API client of an organisation"}
}

// openToOwners are the operations that an API client of an organisation can use, by method and path.
var openToOwners = []string{
	"GET /api/v2/config", "POST /api/v2/config", "GET /api/v2/config/organisations",
	"GET /api/v2/config/organisations/{organisation-id}/service-providers", "POST /api/v2/config/organisations/{organisation-id}/service-providers",
	"GET /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}", "POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}",
}

// keepOut refuses the API clients of organisations, unless the operation is one that shows them their own alone.
func (a *API) keepOut(rt route) rest.Handler {
	if rt.api != apiName || slices.Contains(openToOwners, rt.Method+" "+rt.Path) {
		return rt.Serve
	}
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		u, err := a.s.Current(r.Context())
		if err != nil {
			return err
		}
		if u.OrganisationByAPIClient(client) != nil {
			return &rest.Error{Status: http.StatusForbidden, Message: "the API client belongs to an organisation, and this is not part of it"}
		}
		return rt.Serve(w, r, client)
	}
}

// refuseShared refuses a name of an API client that two organisations have, unless both had it before.
func refuseShared(from, to *Units) error {
	count := func(u *Units) map[string]int {
		n := map[string]int{}
		for i := range u.Organisations {
			n[u.Organisations[i].UsernameForBasicAuth]++
		}
		return n
	}
	before, now := count(from), count(to)
	for i := range slices.Backward(to.Organisations) {
		if name := to.Organisations[i].UsernameForBasicAuth; name != "" && now[name] > 1 && now[name] > before[name] {
			return refusal("organisations["+strconv.Itoa(i)+"].username_for_basic_auth", "is that of another organisation")
		}
	}
	return nil
}
