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
type Service struct {
	person *person.Service
	proof  *challenge.Service
	front  *webflow.Service

	store  storage.Store
	events *audit.Recorder
	units  func(tx storage.Tx) (*settings.Units, error)
	notify notify.Sender
	pages  *web.Renderer
	origin func(*http.Request) audit.Origin
	jar    cookie.Jar
	now    func() time.Time
	random io.Reader
}

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{
		person: d.Person, proof: d.Proof, front: d.Front, store: d.Store, events: d.Events, units: d.Units,
		notify: d.Notify, pages: d.Pages, origin: d.Origin, jar: d.Jar, now: d.Now, random: d.Random,
	}
	s.person.OnWelcome(s.greet)
	s.proof.SetTerms(challenge.DeliveredActivation, activationTerms)
	s.proof.SetLinkPath(linkActivation, activationPath)
	s.proof.SetLinkPath(linkVerification, verifyPath)
	return s
}
