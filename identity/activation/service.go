// Package activation greets new people. An account that needs no activation gets the welcome, and a link that verifies
// its address; any other is activated by a delivered code, by an e-mail or by the first right password, as the settings
// say.
package activation

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
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
	Person *person.Service
	Proof  *challenge.Service
	Front  *webflow.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	Pages  *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	Jar    cookie.Jar
	Now    func() time.Time
	Random io.Reader
}

// Service serves the pages that activate an account or verify an address. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{deps: d}
	s.deps.Person.OnWelcome(s.greet)
	s.deps.Proof.SetTerms(challenge.DeliveredActivation, activationTerms)
	s.deps.Proof.SetLinkPath(linkActivation, activationPath)
	s.deps.Proof.SetLinkPath(linkVerification, verifyPath)
	return s
}
