// Package front is what all pages share: the sign-in under way, who is here, and how to guard a form, refuse, and lead
// on. No page of its own belongs here, and no rule about persons.
package front

import (
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps is what the service works with.
type Deps struct {
	Person  *person.Service
	Session *session.Service
	Proof   *proof.Service

	Store storage.Store
	// Hasher computes slow hashes, a bounded number at a time.
	Hasher *secret.Hasher
	Events *event.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*config.Units, error)
	// Notify sends e-mails. nil: none are sent.
	Notify notify.Sender
	Pages  *page.Renderer
	// Origin tells where a request came from.
	Origin func(*http.Request) event.Origin
	// Admit counts what strangers begin and have stored; false: this sender began too much.
	Admit func(*http.Request) bool
	Jar   cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service serves what pages share. It is safe for concurrent use.
type Service struct {
	person  *person.Service
	session *session.Service
	proof   *proof.Service

	store  storage.Store
	hasher *secret.Hasher
	events *event.Recorder
	units  func(tx storage.Tx) (*config.Units, error)
	notify notify.Sender
	pages  *page.Renderer
	origin func(*http.Request) event.Origin
	admit  func(*http.Request) bool
	jar    cookie.Jar
	issuer string
	log    *zap.Logger
	now    func() time.Time
	random io.Reader

	authenticator authenticator
}

// New returns a service.
func New(d Deps) *Service {
	return &Service{
		person: d.Person, session: d.Session, proof: d.Proof,
		store: d.Store, hasher: d.Hasher, events: d.Events, units: d.Units, notify: d.Notify,
		pages: d.Pages, origin: d.Origin, admit: d.Admit, jar: d.Jar, issuer: d.Issuer,
		log: d.Log, now: d.Now, random: d.Random,
	}
}
