// Package federation signs people in through identity providers: it sends the browser there, verifies the response, and
// begins the session of the linked person. The protocols are in package idp; the registration form of new people is in
// package signup.
package federation

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
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
	Person  *person.Service
	Session *session.Service
	Proof   *challenge.Service
	Front   *webflow.Service

	Store storage.Store
	// Keyring seals what must not be readable in storage.
	Keyring *secret.Keyring
	Events  *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: e-mail is off.
	Notify notify.Sender
	Pages  *web.Renderer
	// Manager knows the providers that change while the service runs. nil: all are in the configuration file.
	Manager Manager
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts a flow that a sender begins, of which size bytes are stored; false: too many.
	Admit func(r *http.Request, size int) bool
	Jar   cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service signs people in by providers. It is safe for concurrent use.
type Service struct {
	deps Deps

	fixed   *Registry                // the providers of the configuration file
	readers []*Member                // those of them that read requests
	managed atomic.Pointer[Registry] // fixed and those of Manager, as they were read last
	refused *rate.Limiter            // bounds the events of refused answers
	lanes   [refreshLanes]chan struct{}

	raising      StepUps
	arrivals     []purpose
	registration Registration
	leaving      func(q *webflow.Request) (func(ret string) (string, error), error)
}

// New returns a service for the providers of the configuration.
func New(providers []Provider, d Deps) (*Service, error) {
	fixed, err := newRegistry(providers)
	if err != nil {
		return nil, err
	}
	s := &Service{deps: d, fixed: fixed, refused: rate.NewLimiter(refusalEventsPerSecond, refusalEventsBurst)}
	for _, p := range fixed.byID {
		if p.Reader != nil && !p.Disabled {
			s.readers = append(s.readers, p)
		}
	}
	for i := range s.lanes {
		s.lanes[i] = make(chan struct{}, 1)
	}
	return s, nil
}
