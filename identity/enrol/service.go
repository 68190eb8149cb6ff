// Package enrol gives people an account and helps them back into it: sign-up, invitation, activation, registration
// after a sign-in at a provider, forgotten passwords and usernames.
package enrol

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of the service.
type Deps struct {
	Person     *person.Service
	Session    *session.Service
	Proof      *challenge.Service
	Front      *webflow.Service
	Federation *federation.Service

	Store storage.Store
	// Keyring encrypts what must not be readable in storage.
	Keyring *secret.Keyring
	Events  *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS   notify.SMSSender
	Pages *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts what strangers begin and store; false: this client began too much.
	Admit func(*http.Request) bool
	Jar   cookie.Jar
	// Issuer is the URL of the service, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service serves the pages for new accounts and forgotten credentials. It is safe for concurrent use.
type Service struct {
	person     *person.Service
	session    *session.Service
	proof      *challenge.Service
	front      *webflow.Service
	federation *federation.Service

	store   storage.Store
	keyring *secret.Keyring
	events  *audit.Recorder
	units   func(tx storage.Tx) (*settings.Units, error)
	notify  notify.Sender
	sms     notify.SMSSender
	pages   *web.Renderer
	origin  func(*http.Request) audit.Origin
	admit   func(*http.Request) bool
	jar     cookie.Jar
	issuer  string
	log     *zap.Logger
	now     func() time.Time
	random  io.Reader
}

// New returns a service, and tells the rooms below what enrolment does for them.
func New(d Deps) *Service {
	s := &Service{
		person: d.Person, session: d.Session, proof: d.Proof, front: d.Front, federation: d.Federation,
		store: d.Store, keyring: d.Keyring, events: d.Events, units: d.Units, notify: d.Notify,
		sms: d.SMS, pages: d.Pages, origin: d.Origin, admit: d.Admit, jar: d.Jar,
		issuer: d.Issuer, log: d.Log, now: d.Now, random: d.Random,
	}
	s.person.OnRemove(forgetInvitation)
	s.person.OnWelcome(s.greet)
	s.proof.SetTerms(challenge.DeliveredInvitation, invitationTerms)
	s.proof.SetTerms(challenge.DeliveredActivation, activationTerms)
	s.proof.SetLinkPath(linkReset, resetPath)
	s.proof.SetLinkPath(linkActivation, activationPath)
	s.proof.SetLinkPath(linkVerification, verifyPath)
	s.proof.SetLinkPath(linkInvitation, invitationPath)
	s.federation.OnArrival(isInvited, s.takeInvited)
	s.federation.RegisterBy(federation.Registration{Ask: askFirst, URL: registerURL})
	return s
}
