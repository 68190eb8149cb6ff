// Package account serves the pages on which people manage their own account: profile, contacts, password, devices,
// applications, data. Second factors have their pages in package mfa.
package account

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
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
	Proof      *challenge.Service
	Front      *webflow.Service
	Federation *federation.Service
	StepUp     *mfa.Service
	Trusted    *trustedbrowser.Service

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
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service serves the account pages. It is safe for concurrent use.
type Service struct {
	deps Deps

	secondFactor func(*settings.Units) string // when a sign-in here needs a second step: a constant of package login
	apps         Applications
	appPasswords AppPasswords
}

// AskBy sets what tells when a sign-in needs a second step. New calls it before the service is used.
func (s *Service) AskBy(secondFactor func(*settings.Units) string) { s.secondFactor = secondFactor }

// New returns a service.
func New(d Deps) *Service {
	return &Service{deps: d, apps: noApplications{}, appPasswords: noAppPasswords{}}
}
