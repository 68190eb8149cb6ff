// Package signup makes accounts for people who come by themselves: by a form whose addresses are confirmed by codes,
// or after a first sign-in at an identity provider, which fills in what it knows. The filled-in form waits encrypted
// until its addresses are confirmed; no person exists before.
package signup

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
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
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS   notify.SMSSender
	Pages *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts what a stranger begins and stores, of size bytes; false: this client began too much.
	Admit  func(r *http.Request, size int) bool
	Jar    cookie.Jar
	Now    func() time.Time
	Random io.Reader
}

// Service serves the pages for new accounts. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{deps: d}
	s.deps.Federation.RegisterBy(federation.Registration{Ask: askFirst, URL: registerURL})
	return s
}
