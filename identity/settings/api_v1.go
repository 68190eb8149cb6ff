package settings

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// current returns the state as it is now.
func (s *Service) current(ctx context.Context) (st *state, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		st, err = s.state(tx)
		return err
	})
	return st, err
}

// getConfiguration serves GET /api/config (identity service document, "Configuration API, version 1").
func (a *API) getConfiguration(w http.ResponseWriter, r *http.Request, _ string) error {
	query, err := parameters(r, "fields")
	if err != nil {
		return err
	}
	known := []string{"messages", "password_policy", "profile"}
	var fields []string
	for _, v := range query["fields"] { // once or several times, with or without commas
		fields = append(fields, strings.Split(v, ",")...)
	}
	for _, f := range fields {
		if !slices.Contains(known, f) {
			return &jsonapi.Error{Status: http.StatusBadRequest, Message: "fields must be of " + strings.Join(known, ", ")}
		}
	}
	if len(fields) == 0 {
		fields = known
	}
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	out := map[string]any{}
	var only unit
	for _, un := range table {
		if slices.Contains(fields, un.name) {
			out[un.name], only = un.of(st.units), un
		}
	}
	tag := jsonapi.Tag(out, 0)
	if len(out) == 1 { // the tag is that of the unit, so it can be sent to the unit's own path
		tag = unitView(only).etag(st)
	}
	jsonapi.Tagged(w, r, tag, out)
	return nil
}

// parameters returns the query of a request, and refuses parameters other than the known ones.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &jsonapi.Error{Status: http.StatusBadRequest, Message: "the query cannot be read"}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, &jsonapi.Error{Status: http.StatusBadRequest, Message: "unknown query parameter"}
		}
	}
	return query, nil
}

// reloadExtension serves POST /api/config/extension/reload (identity service document, "Configuration API, version 1").
func (a *API) reloadExtension(w http.ResponseWriter, r *http.Request, _ string) error {
	if a.reload != nil {
		if err := a.reload(r.Context()); err != nil {
			return (&jsonapi.Error{
				Status:  http.StatusInternalServerError,
				Message: "the extension could not be read; what was read before stays",
			}).With(err)
		}
	}
	jsonapi.Empty(w, http.StatusOK)
	return nil
}

// identityProvider is an IdentityProviderConfig.
type identityProvider struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Enabled bool            `json:"enabled"`
	SAML    *samlProperties `json:"saml_properties,omitempty"`
}

type samlProperties struct {
	AuthnContext string `json:"authn_context"`
}

// getIdentityProviders serves GET /api/config/identity-providers: the login methods except Gatehouse's own (identity
// service document, IdentityProviderConfigResultSet).
func (a *API) getIdentityProviders(w http.ResponseWriter, r *http.Request, _ string) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	return writeView(w, r, st, func(st *state) (any, uint64) {
		list := []identityProvider{}
		for _, m := range st.units.LoginMethods.LoginMethods {
			if m.ID == OwnMethod {
				continue
			}
			p := identityProvider{ID: m.ID, Name: m.Name, Type: m.Type, Enabled: m.Enabled}
			if m.SAML != nil {
				p.SAML = &samlProperties{}
				if classes := m.SAML.AuthenticationLevelMappings; len(classes) > 0 {
					p.SAML.AuthnContext = classes[0].AuthnContextClassRefName
				}
			}
			list = append(list, p)
		}
		return map[string]any{"result": list}, 0
	})
}
