// Package serviceprovider signs people in at SAML 2.0 service providers: it takes their requests, asks for a sign-in,
// decides about access and attributes, and ends the sessions again. The protocol is in package samlidp.
package serviceprovider

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config is the operator's configuration.
type Config struct {
	// Providers are the service providers of the configuration file.
	Providers []Provider
	// Sign are names of key pairs: the first one signs, all are in our metadata. Default: Gatehouse's own.
	Sign []string
}

// Deps are the dependencies of the service.
type Deps struct {
	Person  *person.Service
	Session *session.Service
	Front   *webflow.Service

	Store  storage.Store
	Events *audit.Recorder
	// Units returns the settings as tx sees them.
	Units func(tx storage.Tx) (*settings.Units, error)
	Pages *web.Renderer
	// KeyPair returns a key pair of the configuration by its name; "" is Gatehouse's own for SAML. nil: there are none,
	// and no one signs in at a service provider.
	KeyPair func(ctx context.Context, name string) (*idp.Key, error)
	// Trusted makes requests to addresses that the operator has written, Checked all others.
	Trusted, Checked *http.Client
	// Once marks a message as used, or returns idp.ErrReplayed.
	Once func(tx storage.Tx, key string, until time.Time) error
	// Origin tells where a request came from.
	Origin func(*http.Request) audit.Origin
	// Admit counts a request of a sender, of which size bytes are stored; false: too many.
	Admit func(r *http.Request, size int) bool
	Jar   cookie.Jar
	// Issuer is our own URL, without a trailing slash.
	Issuer string
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service signs people in at service providers. It is safe for concurrent use.
type Service struct {
	deps    Deps
	front   *webflow.Service
	sign    []string
	fixed   []*member
	logouts *outbox.Lanes[logoutRecord]

	mu   sync.Mutex // guards the fields below
	seen *settings.Units
	all  []*member // fixed, and those of seen
}

// New returns the service of a configuration.
func New(cfg Config, d Deps) (*Service, error) {
	s := &Service{deps: d, front: d.Front, sign: cfg.Sign}
	if len(s.sign) == 0 {
		s.sign = []string{""}
	}
	for _, p := range cfg.Providers {
		m, err := s.member(p, true)
		if err != nil {
			return nil, fmt.Errorf("service_provider %s: %w", p.ID, err)
		}
		s.fixed = append(s.fixed, m)
	}
	s.all = s.fixed
	s.logouts = outbox.NewLanes(logouts, d.Store, s.now, logoutQueue(d.Log), logoutLanes)
	return s, nil
}

func (s *Service) now() time.Time { return s.deps.Now().UTC() }

// entityID returns our entity ID, which is also the address of our metadata.
func (s *Service) entityID() string { return s.deps.Issuer + metadataPath }

// KeyFaults returns an error that names the unusable key pairs among those that sign, or nil. none: all are unusable,
// so people cannot sign in at any service provider.
func (s *Service) KeyFaults(ctx context.Context) (faults error, none bool) {
	keys, faults := s.usableKeys(ctx)
	return faults, len(keys) == 0
}

// keys returns the key pairs that sign, the first one first.
func (s *Service) keys(ctx context.Context) ([]*idp.Key, error) {
	out, faults := s.usableKeys(ctx)
	if len(out) == 0 {
		return nil, fmt.Errorf("key pair of the identity provider: %w", faults)
	}
	return out, nil
}

// usableKeys returns the key pairs that sign, the first one first, and an error about those that it left out.
func (s *Service) usableKeys(ctx context.Context) ([]*idp.Key, error) {
	var out, next []*idp.Key // the first one of out signs; next, which comes last, is only published
	var faults error
	for _, name := range s.sign {
		key, err := s.deps.KeyPair(ctx, name)
		if err == nil {
			err = saml.CheckSigner(key)
		}
		if err != nil {
			if name != "" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if faults != nil {
				err = fmt.Errorf("%w; %w", faults, err)
			}
			faults = err
			continue
		}
		out = append(out, key)
		for _, other := range key.Others {
			if saml.CheckSigner(other) == nil { // one without a certificate cannot be published
				next = append(next, other)
			}
		}
	}
	return append(out, next...), faults
}

// writer returns a writer of our messages, with the key that signs now.
func (s *Service) writer(ctx context.Context) (*samlidp.Writer, error) {
	keys, err := s.keys(ctx)
	if err != nil {
		return nil, err
	}
	return &samlidp.Writer{EntityID: s.entityID(), Random: s.deps.Random, Now: s.now, Key: keys[0]}, nil
}

// send sends a browser to a service provider. away says that it is redirected from there to other origins, as after a
// logout message; browsers apply the form-action of our page to those redirects too.
func (s *Service) send(q *webflow.Request, m *member, next *idp.Next, away bool) {
	s.sendBy(q, m, next, web.FormPost{Away: away})
}

// sendFramed is send for a logout message that one of our pages can load in a frame.
func (s *Service) sendFramed(q *webflow.Request, m *member, next *idp.Next) {
	s.sendBy(q, m, next, web.FormPost{Away: true, Framed: true})
}

func (s *Service) sendBy(q *webflow.Request, m *member, next *idp.Next, form web.FormPost) {
	if next.Form == nil {
		web.Redirect(q.W, next.URL)
		return
	}
	form.Action = next.Form.Action
	for _, field := range next.Form.Fields {
		form.Fields = append(form.Fields, web.Hidden{Name: field.Name, Value: field.Value})
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "form_post", Client: m.client(), Data: form})
}
