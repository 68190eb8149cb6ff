// Package actiontoken makes tokens that do something once for a person: activate the account, link an identity, sign in
// on another device. Links in e-mails are made by package challenge.
package actiontoken

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of the service.
type Deps struct {
	Person     *person.Service
	Session    *session.Service
	Front      *webflow.Service
	Federation *federation.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	Pages *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	Jar    cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Now    func() time.Time
	Random io.Reader
}

// Service makes and runs action tokens. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{deps: d} }
