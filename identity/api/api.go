// Package api serves the JSON APIs of persons: credentials and events. (identity service document, "Credentials API", "Events API")
package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are what the APIs work with.
type Deps struct {
	Store storage.Store
	// Gate lets API clients in.
	Gate *rest.Gate
	// Units is the configuration that holds in a transaction. nil: the defaults, under which every API is on.
	Units func(tx storage.Tx) (*config.Units, error)
	// Subject tells of a person, or storage.ErrNotFound. nil: nobody is known by name.
	Subject func(tx storage.Tx, person string) (login.Subject, error)
}

// API serves the APIs. It is safe for concurrent use.
type API struct {
	Deps
	mux http.Handler
}

// New returns the APIs. It opens nothing.
func New(deps Deps) *API {
	a := &API{Deps: deps}
	a.mux = a.routes()
	return a
}

// ServeHTTP implements http.Handler for what Paths names.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// on returns what refuses requests while a feature is switched off.
func (a *API) on(feature func(*config.Features) bool, off func() *rest.Error) func(*http.Request) error {
	return func(r *http.Request) error {
		if a.Units == nil {
			return nil
		}
		return a.Store.View(r.Context(), func(tx storage.Tx) error {
			u, err := a.Units(tx)
			if err == nil && !feature(&u.Features) {
				return off()
			}
			return err
		})
	}
}
