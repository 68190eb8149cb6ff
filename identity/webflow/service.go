// Package webflow carries a browser through a sign-in: request state, the pending flow, form tokens, error pages and
// redirects.
package webflow

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of the service.
type Deps struct {
	Person  *person.Service
	Session *session.Service
	Proof   *challenge.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: e-mail is off.
	Notify notify.Sender
	Pages  *web.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts a flow that a sender begins, of which size bytes are stored; false: too many.
	Admit func(r *http.Request, size int) bool
	Jar   cookie.Jar
	// Refusals keeps why someone was refused. nil: they are logged alone.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service serves what pages share. It is safe for concurrent use.
type Service struct {
	deps Deps

	authenticator authenticator
	protects      func(tx storage.Tx, si *session.Current, u *settings.Units) (bool, error)
	seer          seer                          // nil: no one looks at accounts of others
	moreNav       func(*Request) []web.NavEntry // nil: none
}

// New returns a service.
func New(d Deps) *Service { return &Service{deps: d} }
