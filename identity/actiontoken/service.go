// Package actiontoken makes tokens that do something once for a person: activate the account, link an identity, sign in
// on another device. Links that are mailed belong to package proof.
package actiontoken

import (
	"io"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps is what the service works with.
type Deps struct {
	Person     *person.Service
	Session    *session.Service
	Front      *front.Service
	Federation *federation.Service

	Store  storage.Store
	Events *event.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*config.Units, error)
	Pages *page.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) event.Origin
	Jar    cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Now    func() time.Time
	Random io.Reader
}

// Service makes and runs action tokens. It is safe for concurrent use.
type Service struct {
	person     *person.Service
	session    *session.Service
	front      *front.Service
	federation *federation.Service

	store  storage.Store
	events *event.Recorder
	units  func(tx storage.Tx) (*config.Units, error)
	pages  *page.Renderer
	origin func(*http.Request) event.Origin
	jar    cookie.Jar
	issuer string
	now    func() time.Time
	random io.Reader
}

// New returns a service.
func New(d Deps) *Service {
	return &Service{
		person: d.Person, session: d.Session, front: d.Front, federation: d.Federation,
		store: d.Store, events: d.Events, units: d.Units, pages: d.Pages, origin: d.Origin,
		jar: d.Jar, issuer: d.Issuer, now: d.Now, random: d.Random,
	}
}
