package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// The names of the APIs that API clients are allowed.
const (
	eventsAPI      = "events"
	credentialsAPI = "credentials"
)

// Paths returns the paths that ServeHTTP answers, and those below each that ends with a slash.
func (a *API) Paths() []string { return []string{"/api/events", "/api/credentials/"} }

// routes: every path of the package.
func (a *API) routes() http.Handler {
	events := a.on(func(f *config.Features) bool { return f.EventsAPIEnabled }, eventsOff)
	credentials := able(a.Identity != nil, a.on(func(f *config.Features) bool { return f.CredentialsAPIEnabled }, credentialsOff))
	mux := http.NewServeMux()
	mux.Handle("/api/events", a.Gate.Methods(eventsAPI, events, map[string]rest.Handler{http.MethodGet: a.handleEvents}))
	mux.Handle("/api/credentials/validate", a.Gate.Methods(credentialsAPI, able(a.opener != nil, credentials), map[string]rest.Handler{http.MethodPost: a.handleValidate}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.Gate.Fail(w, r, rest.NotFound()) })
	return mux
}
