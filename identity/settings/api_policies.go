package settings

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// policiesAPI is the name under which API clients are allowed the policies. (api_client X { apis policies })
const policiesAPI = "policies"

// apiOf is the API that the operations of a path belong to.
func apiOf(path string) string {
	if strings.HasPrefix(path, "/api/v2/config/policies") {
		return policiesAPI
	}
	return apiName
}

// getPolicies serves GET /api/v2/config/policies: those of the Caddyfile and those that are stored.
func (a *API) getPolicies(w http.ResponseWriter, r *http.Request, _ string) error {
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	return writeView(w, r, st, func(st *state) (any, uint64) { return a.s.entries(st), 0 })
}

// policyView is the policy of the path, or nil.
func (a *API) policyView(r *http.Request) view {
	name := r.PathValue("name")
	return func(st *state) (any, uint64) {
		if fixed, ok := a.s.cfg.Policies[name]; ok {
			return fixed.Policy, 0
		}
		if p, ok := st.units.Policies[name]; ok {
			return p, 0
		}
		return nil, 0
	}
}

// getPolicy serves GET /api/v2/config/policies/{name}.
func (a *API) getPolicy(w http.ResponseWriter, r *http.Request, _ string) error {
	st, err := a.s.current(r.Context())
	if err != nil {
		return err
	}
	v := a.policyView(r)
	if p, _ := v(st); p == nil {
		return jsonapi.NotFound()
	}
	return writeView(w, r, st, v)
}

// putPolicy serves PUT /api/v2/config/policies/{name}: the policy is made, or replaced as a whole.
func (a *API) putPolicy(w http.ResponseWriter, r *http.Request, client string) error {
	name := r.PathValue("name")
	var in Policy
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	made := false
	st, err := a.s.update(r.Context(), edit{by: a.s.by(r, client), match: a.policyMatch(r), apply: func(u *Units) error {
		_, known := u.Policies[name]
		made = !known
		u.Policies[name] = in
		return nil
	}})
	if err != nil {
		return within(err, "policies."+shown(name))
	}
	w.Header().Set("ETag", a.policyView(r).etag(st))
	status := http.StatusNoContent
	if made { // RFC 9110 9.3.4
		status = http.StatusCreated
	}
	jsonapi.Empty(w, status)
	return nil
}

// policyMatch is ifMatch for something that need not be there. (RFC 9110 13.1.1, 13.1.2)
func (a *API) policyMatch(r *http.Request) func(*state) bool {
	v := a.policyView(r)
	match := ifMatch(r, v)
	if match == nil {
		return nil
	}
	return func(st *state) bool {
		if p, _ := v(st); p == nil {
			return len(r.Header.Values("If-Match")) == 0
		}
		return match(st)
	}
}

// deletePolicy serves DELETE /api/v2/config/policies/{name}.
func (a *API) deletePolicy(w http.ResponseWriter, r *http.Request, client string) error {
	name := r.PathValue("name")
	_, err := a.s.update(r.Context(), edit{by: a.s.by(r, client), match: a.policyMatch(r), apply: func(u *Units) error {
		if _, ok := u.Policies[name]; !ok {
			if fixed, ok := a.s.cfg.Policies[name]; ok {
				return refusal("", coded.Errorf("policy_fixed", "place", "the policy is written in the Caddyfile%s and cannot be removed here", atPlace(fixed.Place)))
			}
			return jsonapi.NotFound()
		}
		delete(u.Policies, name)
		return nil
	}})
	if err != nil {
		return within(err, "policies."+shown(name))
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}
