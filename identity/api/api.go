// Package api serves the JSON APIs about people: credentials, action tokens, invitations, telephone numbers, delivered
// codes and events. (identity service document, "Credentials API", "Events API")
package api

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of the APIs.
type Deps struct {
	Store storage.Store
	// Gate lets API clients in.
	Gate *jsonapi.Gate
	// Units returns the configuration as a transaction sees it. nil: the defaults, with which every API is on.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Subject returns what is known about a person, or storage.ErrNotFound. nil: events name no usernames.
	Subject func(tx storage.Tx, person string) (authn.Subject, error)
	// Identity knows persons and their passwords. nil: the credentials API is not available.
	Identity *identity.Service
	// CredentialsKey decrypts the passwords that API clients send: 16, 24 or 32 bytes. Default: no password is
	// accepted.
	CredentialsKey secret.String
	// MaxLevel returns the highest level of the LOGIN tokens that an API client makes. nil, or 0: any.
	MaxLevel func(client string) int
	// Origin says where a request came from. Default: the server itself.
	Origin func(*http.Request) audit.Origin
	Now    func() time.Time
	Random io.Reader
}

// API serves the APIs. It is safe for concurrent use.
type API struct {
	deps Deps

	mux    http.Handler
	opener *opener                    // nil: there is no key
	asks   *ratelimit.Limiter[string] // by API client
}

// New returns the APIs.
func New(deps Deps) (*API, error) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Origin == nil {
		deps.Origin = func(*http.Request) audit.Origin { return audit.Self }
	}
	a := &API{deps: deps, asks: ratelimit.New[string](askLimits)}
	var err error
	if a.opener, err = newOpener(deps.CredentialsKey); err != nil {
		return nil, fmt.Errorf("api: the credentials key: %w", err)
	}
	a.mux = a.routes()
	return a, nil
}

// ServeHTTP implements http.Handler for what Paths names.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// on returns a function that refuses requests while the feature of an API is switched off.
func (a *API) on(feature func(*settings.Features) bool, api string) func(*http.Request) error {
	return func(r *http.Request) error {
		if a.deps.Units == nil {
			return nil
		}
		return a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
			u, err := a.deps.Units(tx)
			if err == nil && !feature(&u.Features) {
				return apiOff(api)
			}
			return err
		})
	}
}

// able refuses requests while something they need is missing, and otherwise asks on.
func able(there bool, on func(*http.Request) error) func(*http.Request) error {
	if there {
		return on
	}
	return func(*http.Request) error { return apiOff("credentials") }
}
