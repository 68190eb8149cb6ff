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
	// Admit counts the flows that a sender begins; false: too many.
	Admit func(*http.Request) bool
	Jar   cookie.Jar
	// Refusals keeps why someone was refused. nil: they are logged alone.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service serves what pages share. It is safe for concurrent use.
type Service struct {
	person  *person.Service
	session *session.Service
	proof   *challenge.Service

	store   storage.Store
	events  *audit.Recorder
	units   func(tx storage.Tx) (*settings.Units, error)
	notify  notify.Sender
	pages   *web.Renderer
	origin  func(*http.Request) audit.Origin
	admit   func(*http.Request) bool
	jar     cookie.Jar
	refused *denial.Recorder
	log     *zap.Logger
	now     func() time.Time
	random  io.Reader

	authenticator authenticator
	protects      func(tx storage.Tx, si *session.Current, u *settings.Units) (bool, error)
	seer          seer                          // nil: no one looks at accounts of others
	moreNav       func(*Request) []web.NavEntry // nil: none
}

// New returns a service.
func New(d Deps) *Service {
	return &Service{
		person: d.Person, session: d.Session, proof: d.Proof,
		store: d.Store, events: d.Events, units: d.Units, notify: d.Notify,
		pages: d.Pages, origin: d.Origin, admit: d.Admit, jar: d.Jar, refused: d.Refusals,
		log: d.Log, now: d.Now, random: d.Random,
	}
}
