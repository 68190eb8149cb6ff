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
type Service struct {
	person     *person.Service
	proof      *challenge.Service
	front      *webflow.Service
	federation *federation.Service

	store  storage.Store
	events *audit.Recorder
	units  func(tx storage.Tx) (*settings.Units, error)
	pages  *web.Renderer
	origin func(*http.Request) audit.Origin
	jar    cookie.Jar
	issuer string
	now    func() time.Time
	random io.Reader
}

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{
		person: d.Person, proof: d.Proof, front: d.Front, federation: d.Federation, store: d.Store, events: d.Events,
		units: d.Units, pages: d.Pages, origin: d.Origin, jar: d.Jar, issuer: d.Issuer, now: d.Now,
		random: d.Random,
	}
	s.person.OnRemove(forgetInvitation)
	s.proof.SetTerms(challenge.DeliveredInvitation, invitationTerms)
	s.proof.SetLinkPath(linkInvitation, invitationPath)
	s.federation.OnArrival(isInvited, s.takeInvited)
	return s
}
