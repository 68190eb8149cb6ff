// Package trustedbrowser remembers the browsers that people trust. After using a second factor, a person can trust the
// browser; it then counts as that factor at later sign-ins, for applications whose organisation allows it.
// (docs/decisions/pages.md#trusted-browsers)
package trustedbrowser

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// Level is the level that a trusted browser gives to a sign-in, and the only one.
	Level = 2

	life       = 30 * 24 * time.Hour
	perPerson  = 10 // browsers of a person. A further one takes the place of the oldest
	cookieKind = "trusted"
)

// Deps are the dependencies of the service.
type Deps struct {
	Person  *person.Service
	Session *session.Service
	Front   *webflow.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	Pages *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	Jar    cookie.Jar
	Now    func() time.Time
	Random io.Reader
}

// Service keeps trusted browsers. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{deps: d} }
