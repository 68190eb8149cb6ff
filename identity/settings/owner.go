package settings

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// EveryOrganisation is the binding of an API client that belongs to no organisation, whatever it belonged to before.
const EveryOrganisation = "*"

// organisationByUsername returns the organisation that names an API client, in any case, or nil.
func (u *Units) organisationByUsername(name string) *Organisation {
	for i := range u.Organisations {
		if o := &u.Organisations[i]; name != "" && strings.EqualFold(o.UsernameForBasicAuth, name) {
			return o
		}
	}
	return nil
}

// bindingOf returns the organisation that an API client belongs to: the one that its own configuration says, or one
// that names it, or has named it before. own is nil where there is no such organisation any more; then the client can
// do nothing. bound is "" for a client of no organisation. (docs/decisions/pages.md#api-clients-of-organisations)
func (st *state) bindingOf(client string) (own *Organisation, bound string) {
	if client == "" {
		return nil, ""
	}
	said := st.clients[client]
	if said != "" && said != EveryOrganisation {
		i := slices.IndexFunc(st.units.Organisations, func(o Organisation) bool { return o.ID == said })
		if i >= 0 {
			own = &st.units.Organisations[i]
		}
		return own, said
	}
	if own = st.units.organisationByUsername(client); own != nil {
		return own, own.ID
	}
	if said == EveryOrganisation {
		return nil, ""
	}
	return nil, st.bound[foldClient(client)]
}

// foldClient is the name of an API client without regard to case.
func foldClient(name string) string { return strings.ToLower(name) }

// OrganisationOfClient returns the id of the organisation that an API client belongs to, or "". exists says that the
// organisation is there: without it the client can do nothing.
func (s *Service) OrganisationOfClient(ctx context.Context, client string) (id string, exists bool, err error) {
	st, err := s.current(ctx)
	if err != nil {
		return "", false, err
	}
	own, id := st.bindingOf(client)
	return id, own != nil, nil
}

// seenBy returns the state as an API client sees it. To one of an organisation there are no others, and to one whose
// organisation is gone they are all hidden. (docs/decisions/pages.md#api-clients-of-organisations)
func (st *state) seenBy(client string) *state {
	own, bound := st.bindingOf(client)
	if bound == "" {
		return st
	}
	seen, u := *st, *st.units
	u.Organisations = nil
	if own != nil {
		u.Organisations = []Organisation{*own}
	}
	seen.units = &u
	return &seen
}

// bindings are the API clients that organisations name, by their folded names.
func (u *Units) bindings() map[string]string {
	out := map[string]string{}
	for i := range u.Organisations {
		if o := &u.Organisations[i]; o.UsernameForBasicAuth != "" {
			out[foldClient(o.UsernameForBasicAuth)] = o.ID
		}
	}
	return out
}

// readBound reads which API clients organisations have named.
func readBound(tx storage.Tx) (map[string]string, error) {
	out := map[string]string{}
	for e, err := range boundClients.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		out[storage.Parts(e.Key)[0]] = e.Value.Organisation
	}
	return out, nil
}

// putBound remembers which API clients organisations name. That outlives the organisation and its name for the client.
func putBound(tx storage.Tx, known, now map[string]string) error {
	for name, id := range now {
		if known[name] == id {
			continue
		}
		if err := boundClients.Put(tx, name, boundRecord{Organisation: id}, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// errUnbound refuses an API client whose organisation is gone.
func errUnbound() error {
	return withCode(http.StatusForbidden, coded.New("unbound", "the API client belongs to an organisation that does not exist any more"))
}

// confine puts what an API client has made of its organisation into the units that it does not see, or refuses what is
// not its own. from is how everything was.
func (u *Units) confine(ctx context.Context, from *Units, own *Organisation, e edit,
	reserved func(context.Context, string) (bool, error),
) (err error) {
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
			return refusal("organisations[0].service_providers."+shown(id), coded.New("taken_application", "is an application of another organisation, or of the server"))
		}
	}
	return nil
}

// refuseNoClient refuses the name of an API client that does not exist, unless it was there before.
func (s *Service) refuseNoClient(from, to *Units) error {
	if s.cfg.APIClients == nil {
		return nil
	}
	known := s.cfg.APIClients()
	for i := range to.Organisations {
		name := to.Organisations[i].UsernameForBasicAuth
		before := slices.ContainsFunc(from.Organisations, func(o Organisation) bool { return o.UsernameForBasicAuth == name })
		if name != "" && !before && !slices.Contains(known, name) {
			return invalid("organisations["+strconv.Itoa(i)+"].username_for_basic_auth",
				coded.New("no_api_client", "is not the id of an API client"))
		}
	}
	return nil
}

// notOwn refuses what is not of the organisation of an API client.
func notOwn(what string) error {
	return withCode(http.StatusForbidden, coded.Errorf("not_own", "member", "%s cannot be changed by the API client of an organisation", what))
}

// openToOwners are the operations that an API client of an organisation can use, by method and path.
var openToOwners = []string{
	"GET /api/v2/config", "POST /api/v2/config", "GET /api/v2/config/organisations",
	"GET /api/v2/config/organisations/{organisation-id}/service-providers",
	"POST /api/v2/config/organisations/{organisation-id}/service-providers",
	"GET /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}",
	"POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}",
}

// keepOut refuses the API clients of organisations, unless the operation is one that shows them their own alone.
func (a *API) keepOut(rt route) jsonapi.Handler {
	open := rt.api != apiName || slices.Contains(openToOwners, rt.Method+" "+rt.Path)
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		id, exists, err := a.s.OrganisationOfClient(r.Context(), client)
		switch {
		case err != nil:
			return err
		case id != "" && !exists:
			return errUnbound()
		case id != "" && !open:
			return withCode(http.StatusForbidden, coded.New("not_part", "the API client belongs to an organisation, and this is not part of it"))
		}
		return rt.Serve(w, r, client)
	}
}

// refuseShared refuses a name of an API client that two organisations have, unless both had it before.
func refuseShared(from, to *Units) error {
	count := func(u *Units) map[string]int {
		n := map[string]int{}
		for i := range u.Organisations {
			n[foldClient(u.Organisations[i].UsernameForBasicAuth)]++
		}
		return n
	}
	before, now := count(from), count(to)
	for i := range slices.Backward(to.Organisations) {
		if name := foldClient(to.Organisations[i].UsernameForBasicAuth); name != "" && now[name] > 1 && now[name] > before[name] {
			return refusal("organisations["+strconv.Itoa(i)+"].username_for_basic_auth",
				coded.New("other_organisation", "is that of another organisation"))
		}
	}
	return nil
}
