// Package mfa raises a sign-in to a higher level. It has the second factors, the pages that set them up, and the way to
// the step-up page and back.
package mfa

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
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
	// Keyring seals what must not be readable in storage.
	Keyring *secret.Keyring
	// Hasher computes slow hashes, a bounded number at a time.
	Hasher *secret.Hasher
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS notify.SMSSender
	// Push sends prompts to phones. nil: none are sent.
	Push  notify.PushSender
	Pages *web.Renderer
	// Origin returns where a request came from.
	Origin func(*http.Request) audit.Origin
	Jar    cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service raises sign-ins. It is safe for concurrent use.
type Service struct {
	deps Deps

	// Passkeys keeps and verifies passkeys.
	Passkeys *passkey.Service
	sections []Section
}

// New returns a service.
func New(passkeys passkey.Config, d Deps) (*Service, error) {
	s := &Service{deps: d}
	var err error
	s.Passkeys, err = passkey.New(passkeys, d.Issuer, d.Pages.Name(), d.Store, d.Now, d.Random)
	return s, err
}

// HasPasskeys reports whether passkeys are switched on.
func (s *Service) HasPasskeys() bool { return s.Passkeys.On() }
