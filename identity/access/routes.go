package access

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// The names of the APIs that API clients are allowed: to read, and to decide.
const (
	readAPI   = "access"
	decideAPI = "access_decisions"
)

// Paths returns the paths that ServeHTTP answers, and those below each that ends with a slash.
func (a *API) Paths() []string { return []string{"/api/access-requests", "/api/access-requests/"} }

// routes: every path of the package.
func (a *API) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/access-requests", a.deps.Gate.Methods(readAPI, nil, map[string]jsonapi.Handler{http.MethodGet: a.handleList}))
	mux.Handle("/api/access-requests/{id}", a.deps.Gate.Methods(readAPI, nil, map[string]jsonapi.Handler{http.MethodGet: a.handleGet}))
	mux.Handle("/api/access-requests/{id}/grant",
		a.deps.Gate.Methods(decideAPI, nil, map[string]jsonapi.Handler{http.MethodPost: a.handleGrant}))
	mux.Handle("/api/access-requests/{id}/refuse",
		a.deps.Gate.Methods(decideAPI, nil, map[string]jsonapi.Handler{http.MethodPost: a.handleRefuse}))
	mux.Handle("/api/access-requests/{id}/revoke",
		a.deps.Gate.Methods(decideAPI, nil, map[string]jsonapi.Handler{http.MethodPost: a.handleRevoke}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.deps.Gate.Fail(w, r, jsonapi.NotFound()) })
	return mux
}
