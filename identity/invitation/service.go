// Package invitation lets people accept an account that was made for them. A link from an e-mail or an administrator
// opens it, a second check can be demanded (a code, a text message, a date of birth), and the person then chooses a
// password or signs in at a provider. Wrong answers lock the invitation.
package invitation

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
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
	Proof      *challenge.Service
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
	// Issuer is the URL of the service, without a trailing slash.
	Issuer string
	Now    func() time.Time
	Random io.Reader
}

// Service serves the pages for invited people. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{deps: d}
	s.deps.Person.OnRemove(forgetInvitation)
	s.deps.Proof.SetTerms(challenge.DeliveredInvitation, invitationTerms)
	s.deps.Proof.SetLinkPath(linkInvitation, invitationPath)
	s.deps.Federation.OnArrival(isInvited, s.takeInvited)
	return s
}
