package settings

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// A whitelist is one of the two lists of URLs.
type whitelist func(u *Units) *[]WhitelistedURL

func actionTokenURLs(u *Units) *[]WhitelistedURL { return &u.Features.ActionToken.WhitelistedURLs }

func redirectURLs(u *Units) *[]WhitelistedURL { return &u.Redirects.URLWhitelist }

func (l whitelist) view() view {
	return func(st *state) (any, uint64) { return *l(st.units), 0 }
}

// getWhitelist serves GET …/whitelisted-urls.
func (a *API) getWhitelist(l whitelist) jsonapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, _ string) error {
		st, err := a.s.current(r.Context())
		if err != nil {
			return err
		}
		return writeView(w, r, st, l.view())
	}
}

// postWhitelist serves POST …/whitelisted-urls, which adds an entry and answers it with its id.
func (a *API) postWhitelist(l whitelist, status int) jsonapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		var in struct {
			URL string `json:"url" rest:"required"`
		}
		if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
			return err
		}
		if err := checkWhitelistedURL(in.URL); err != nil {
			return err
		}
		st, err := a.s.update(r.Context(), edit{by: a.s.by(r, client), client: client, match: ifMatch(r, l.view()), apply: func(u *Units) error {
			list := l(u)
			if slices.ContainsFunc(*list, func(w WhitelistedURL) bool { return w.URL == in.URL }) {
				return invalid("url", coded.New("twice", "is there already"))
			}
			*list = append(*list, WhitelistedURL{URL: in.URL})
			return nil
		}})
		if err != nil {
			return err
		}
		list := *l(st.units)
		w.Header().Set("ETag", l.view().etag(st))
		jsonapi.JSON(w, status, list[slices.IndexFunc(list, func(w WhitelistedURL) bool { return w.URL == in.URL })])
		return nil
	}
}

// checkWhitelistedURL checks a URL, and names the member as it is called in the body of this operation.
func checkWhitelistedURL(raw string) error {
	c := &checker{}
	c.text(raw, "url", "whitelisted")
	if len(c.problems) > 0 {
		return jsonapi.Invalid(c.problems...)
	}
	return nil
}

// deleteWhitelisted serves DELETE …/whitelisted-urls/{id}.
func (a *API) deleteWhitelisted(l whitelist, name string) jsonapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		return a.change(w, r, client, l.view(), func(u *Units) error {
			list := l(u)
			i := slices.IndexFunc(*list, func(w WhitelistedURL) bool { return w.ID == r.PathValue(name) })
			if i < 0 {
				return jsonapi.NotFound()
			}
			*list = slices.Delete(*list, i, i+1)
			return nil
		})
	}
}

// organisation returns the organisation that the path of a request names.
func organisation(r *http.Request, u *Units) (*Organisation, error) {
	i := slices.IndexFunc(u.Organisations, func(o Organisation) bool { return o.ID == r.PathValue("organisation-id") })
	if i < 0 {
		return nil, jsonapi.NotFound()
	}
	return &u.Organisations[i], nil
}

// serviceProviders returns the service providers of an organisation in the order of their ids.
func serviceProviders(o *Organisation) []ServiceProvider {
	out := []ServiceProvider{}
	for _, sp := range o.ServiceProviders {
		out = append(out, sp)
	}
	slices.SortFunc(out, func(a, b ServiceProvider) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// providersView is the service providers of the path's organisation, empty if there is no such organisation.
func providersView(r *http.Request) view {
	return func(st *state) (any, uint64) {
		o, err := organisation(r, st.units)
		if err != nil {
			return nil, 0
		}
		return serviceProviders(o), 0
	}
}

// getServiceProviders serves GET /api/v2/config/organisations/{organisation-id}/service-providers.
func (a *API) getServiceProviders(w http.ResponseWriter, r *http.Request, client string) error {
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	st = st.seenBy(client)
	if _, err := organisation(r, st.units); err != nil {
		return err
	}
	return writeView(w, r, st, providersView(r))
}

// postServiceProviders serves POST /api/v2/config/organisations/{organisation-id}/service-providers: the array replaces
// the stored one, and is answered.
func (a *API) postServiceProviders(w http.ResponseWriter, r *http.Request, client string) error {
	var in []ServiceProvider
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	for i := range in {
		if in[i].ID != "" {
			continue
		}
		id, err := a.s.newID()
		if err != nil {
			return err
		}
		in[i].ID = id
	}
	st, err := a.s.update(r.Context(),
		edit{by: a.s.by(r, client), client: client, match: ifMatch(r, providersView(r)), apply: func(u *Units) error {
			o, err := organisation(r, u)
			if err != nil {
				return err
			}
			o.ServiceProviders = map[string]ServiceProvider{}
			for _, sp := range in {
				if _, twice := o.ServiceProviders[sp.ID]; twice {
					return invalid("id", coded.New("twice", "is there twice"))
				}
				o.ServiceProviders[sp.ID] = sp
			}
			return nil
		}})
	if err != nil {
		return relocated(err, func(path string) string { return providerPath(path, in) })
	}
	v := providersView(r)
	w.Header().Set("ETag", v.etag(st))
	body, _ := v(st)
	jsonapi.JSON(w, http.StatusOK, body)
	return nil
}

// providerView is the service provider of the path.
func providerView(r *http.Request) view {
	return func(st *state) (any, uint64) {
		o, err := organisation(r, st.units)
		if err != nil {
			return nil, 0
		}
		sp, ok := o.ServiceProviders[r.PathValue("serviceProviderId")]
		if !ok {
			return nil, 0
		}
		return sp, 0
	}
}

// getServiceProvider serves GET /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}.
// The document lists 204 with a body, which HTTP does not have: it is 200.
// (docs/decisions/configuration.md#configuration-paths)
func (a *API) getServiceProvider(w http.ResponseWriter, r *http.Request, client string) error {
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	st = st.seenBy(client)
	if v, _ := providerView(r)(st); v == nil {
		return jsonapi.NotFound()
	}
	return writeView(w, r, st, providerView(r))
}

// postServiceProvider serves POST /api/v2/config/organisations/{organisation-id}/service-providers/{serviceProviderId}:
// members that are present replace the stored ones.
func (a *API) postServiceProvider(w http.ResponseWriter, r *http.Request, client string) error {
	body, err := jsonapi.Body(w, r, maxBody)
	if err != nil {
		return err
	}
	id := r.PathValue("serviceProviderId")
	err = a.change(w, r, client, providerView(r), func(u *Units) error {
		o, err := organisation(r, u)
		if err != nil {
			return err
		}
		sp, ok := o.ServiceProviders[id]
		if !ok {
			return jsonapi.NotFound()
		}
		if err := jsonapi.DecodeBytes(body, &sp); err != nil {
			return err
		}
		if sp.ID != id {
			return invalid("id", coded.New("key_name", "is not that of the path"))
		}
		o.ServiceProviders[id] = sp
		return nil
	})
	return relocated(err, func(path string) string {
		_, rest, ok := strings.Cut(path, ".service_providers."+shown(id)+".")
		if !ok {
			return path
		}
		return rest
	})
}

// providerPath returns the place in a list of service providers of a path in the units.
func providerPath(path string, in []ServiceProvider) string {
	for i, sp := range in {
		if _, rest, ok := strings.Cut(path, ".service_providers."+shown(sp.ID)+"."); ok {
			return "[" + strconv.Itoa(i) + "]." + rest
		}
	}
	return path
}
