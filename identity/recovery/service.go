// Package recovery helps people back into their account: a new password by a link or a code, and a reminder of the
// username. An answer and its time are the same whether the account exists or not.
package recovery

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of the service.
type Deps struct {
	Person     *person.Service
	Session    *session.Service
	Proof      *challenge.Service
	Front      *webflow.Service
	Federation *federation.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS notify.SMSSender
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts what a stranger begins and stores, of size bytes; false: this client began too much.
	Admit func(r *http.Request, size int) bool
	Jar   cookie.Jar
	// Issuer is the URL of the service, without a trailing slash.
	Issuer string
	Now    func() time.Time
	Random io.Reader
}

// Service serves the pages for forgotten passwords and usernames. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service, and registers its hooks.
func New(d Deps) *Service {
	s := &Service{deps: d}
	s.deps.Proof.SetLinkPath(linkReset, resetPath)
	return s
}
