// Package identity holds persons and signs them in: who they are, their passwords, their sessions, the pages for it. It answers
// authz, which it does not know, in the words of internal/login.
package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config is what the operator decided. It is not changed once given to New.
type Config struct {
	Issuer  string      // no trailing slash
	Persons []NewPerson // created when their username is not taken; never changed afterwards
	Session SessionConfig
	Lockout LockoutConfig
	Locales []string
	// Partitions keep persons apart. Default: off.
	Partitions PartitionConfig
	// Providers are the identity providers beside the service itself, which is called identity.
	Providers []Provider
	// NoPasskeys switches passkeys off, which are on where PasskeysPossible.
	NoPasskeys bool
}

// SessionConfig says how long a sign-in lasts.
type SessionConfig struct {
	Idle     time.Duration // without use. Default: 1 hour
	Absolute time.Duration // at the most. Default: 12 hours
	Remember time.Duration // when the person asked to stay signed in: at the most, used or not. Default: 30 days. Negative: not offered
}

// LockoutConfig says when failed sign-ins are slowed down.
type LockoutConfig struct {
	Failures int           // of one person from one address. Default: 5
	Window   time.Duration // in which they count. Default: 15 minutes
}

// Deps is what the service works with. Store, Hasher and Pages are required.
type Deps struct {
	Store storage.Store
	// Keyring seals what providers hold. Default: one that is made anew, so that a restart forgets it.
	Keyring *secret.Keyring
	Hasher  *secret.Hasher
	Events  *event.Recorder
	Pages   *page.Renderer
	// Units returns what the configuration API has set, as tx sees it. Default: nobody has set anything.
	Units func(tx storage.Tx) (*config.Units, error)
	// Notify sends what persons are told. nil: they are told nothing.
	Notify notify.Sender
	// SMS sends text messages. nil: none are sent.
	SMS notify.SMSSender
	// Push sends prompts to devices. nil: none are sent.
	Push notify.PushSender
	// Breached tells whether a password is one of a breach. nil: nobody can tell, and the policy cannot demand it.
	Breached BreachCheck
	// Manager knows the providers that are managed while the service runs. nil: there are none.
	Manager Manager
	// Origin says where a request came from. Default: its peer address.
	Origin func(*http.Request) event.Origin
	// Admit counts what strangers begin and have stored, and is false when the request's sender began too much. Default: anything goes.
	Admit  func(*http.Request) bool
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Service signs persons in. It is safe for concurrent use.
type Service struct {
	Deps

	cfg  Config
	jar  cookie.Jar
	mux  http.Handler
	apps Applications

	// Of persons: see person_hooks.go.
	watching       Watcher
	removeHooks    []removeHook
	changeHooks    []changeHook
	passwordHooks  []passwordHook
	welcomeHook    welcomeHook
	nameOfProvider func(id string) string

	// Of proofs.
	deliveries map[deliveredFor]deliveredPurpose
	linkPaths  map[linkKind]string

	// Of the pages.
	authenticator authenticator

	// Of identity providers.
	raising      raisingWays
	arrivals     []arrival
	registration registration

	// Of step-ups.
	sections []securitySection

	// Of sessions.
	forgetHooks []func(tx storage.Tx, session string) error

	fixed   *registry                // the providers of the configuration
	readers []*registered            // those of them that read the request
	managed atomic.Pointer[registry] // fixed and those of Manager, as they were last
	refused *rate.Limiter            // bounds the events of answers that nobody has asked for
	doubts  *rate.Limiter            // bounds the events of breaches that could not be asked for
	lanes   [refreshLanes]chan struct{}
	decoys  decoys
	part    *secret.Hasher // of Hasher, for API clients: their queue is not that of people at the sign-in page
	made    *secret.Hasher // of Hasher, for new passwords: a directory sets thousands of them
	panics  atomic.Int64
	rp      *webauthn.WebAuthn // verifies passkeys. nil: there are none
}

// New returns a service for one configuration and creates the persons of it that are absent. Several may share one store at a time,
// such as during a reload.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if deps.Store == nil || deps.Hasher == nil || deps.Pages == nil {
		return nil, errors.New("identity: Store, Hasher and Pages are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.Events == nil {
		deps.Events = &event.Recorder{Random: deps.Random, Now: deps.Now}
	}
	if deps.Origin == nil {
		deps.Origin = event.PeerOrigin
	}
	if deps.Keyring == nil {
		key := make([]byte, secret.KeySize)
		if _, err := io.ReadFull(deps.Random, key); err != nil {
			return nil, err
		}
		ring, err := secret.NewKeyring(key)
		if err != nil {
			return nil, err
		}
		deps.Keyring = ring
	}
	if deps.Units == nil {
		standard := config.Defaults()
		deps.Units = func(storage.Tx) (*config.Units, error) { return &standard, nil }
	}
	if deps.Admit == nil {
		deps.Admit = func(*http.Request) bool { return true }
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Service{Deps: deps, cfg: cfg, jar: cookie.For(cfg.Issuer), apps: noApplications{}}
	s.tie()
	s.part, s.made = deps.Hasher.Part(), deps.Hasher.Part()
	s.doubts = rate.NewLimiter(rate.Every(time.Minute), 10)
	s.refused = rate.NewLimiter(refusalEventsPerSecond, refusalEventsBurst)
	var err error
	if s.fixed, err = fixedProviders(cfg.Providers); err != nil {
		return nil, err
	}
	for _, p := range s.fixed.byID {
		if p.reader != nil && !p.Disabled {
			s.readers = append(s.readers, p)
		}
	}
	for i := range s.lanes {
		s.lanes[i] = make(chan struct{}, 1)
	}
	if !cfg.NoPasskeys && PasskeysPossible(cfg.Issuer) {
		if s.rp, err = newRelyingParty(cfg.Issuer, deps.Pages.Name()); err != nil {
			return nil, err
		}
	}
	s.decoys = decoys{key: deps.Keyring.Derive(decoyPurpose), kind: map[string]string{}}
	if err := s.learnDecoys(ctx); err != nil {
		s.Log.Warn("kinds of imported hashes not looked up", zap.Error(err))
	}
	s.mux = s.routes()
	for _, p := range cfg.Persons {
		if err := s.addConfigured(ctx, p); err != nil {
			return nil, fmt.Errorf("identity: person %q: %w", p.Username, err)
		}
	}
	return s, nil
}

// tie tells each part of the service what the others do when something happens in it.
func (s *Service) tie() {
	s.onRemove(s.forgetSessions)
	s.onRemove(forgetStepUp)
	s.onRemove(forgetInvitation)
	s.onChange(s.lowerReached)
	s.onPassword(s.keepSession)
	s.onWelcome(s.greet)
	s.nameProvidersBy(s.providerName)
	s.onForget(forgetSetUps)
	s.onForget(forgetNewContact)
	s.authenticateBy(s)
	s.raiseBy(raisingWays{reachable: s.reachable, passkeys: s.hasPasskeys})
	s.onArrival(isInvited, s.enterInvited)
	s.onArrival(isOwnCoupling, s.coupleOwn)
	s.registerBy(registration{ask: s.askFirst, url: registerURL})
	s.addSections(passwordSection)
	s.addSections(s.methodSections()...)
	s.addSections(s.identitiesSection)
	s.deliver(deliveredStepUp, stepUpDelivery)
	s.deliver(deliveredInvitation, invitationDelivery)
	s.deliver(deliveredActivation, activationDelivery)
	s.leadLinks(linkReset, resetPath)
	s.leadLinks(linkActivation, activationPath)
	s.leadLinks(linkVerification, verifyPath)
	s.leadLinks(linkInvitation, invitationPath)
	s.leadLinks(linkPINReset, pinResetPath)
}

// complete fills in the defaults.
func (c *Config) complete() error {
	se, lo := &c.Session, &c.Lockout
	if se.Idle == 0 {
		se.Idle = time.Hour
	}
	if se.Absolute == 0 {
		se.Absolute = 12 * time.Hour
	}
	if se.Remember == 0 {
		se.Remember = 30 * 24 * time.Hour
	}
	if lo.Failures == 0 {
		lo.Failures = 5
	}
	if lo.Window == 0 {
		lo.Window = 15 * time.Minute
	}
	if se.Idle < time.Minute || se.Absolute < time.Minute {
		return errors.New("identity: sessions must last a minute at least")
	}
	if err := c.Partitions.check(); err != nil {
		return err
	}
	if lo.Failures < 1 || lo.Window < time.Second {
		return errors.New("identity: lockout needs at least one failure and one second")
	}
	return nil
}

// ServeHTTP answers the paths of routes.go and 404 for others. A panic becomes a 500 page with a reference.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		s.panics.Add(1)
		ref := s.Pages.Error(w, r, http.StatusInternalServerError, "error.internal", "")
		s.Log.Error("panic in a handler", zap.String("ref", ref), zap.String("type", fmt.Sprintf("%T", v)), zap.ByteString("stack", debug.Stack()))
	}()
	s.mux.ServeHTTP(w, r)
}

// Panics returns how many panics the handlers have met.
func (s *Service) Panics() int64 { return s.panics.Load() }

// newID returns a random identifier of 256 bits, for the cookies that bind and recognise a browser.
func (s *Service) newID() (string, error) { return secret.ID(s.Random, 32) }

// fail answers what is not the person's doing: 503 when we cannot tell or too much is asked at once, otherwise 500. It logs once.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error, again string) {
	status, key := http.StatusInternalServerError, "error.internal"
	if errors.Is(err, errClosed) {
		s.Log.Info("sign-in refused", zap.String("path", r.URL.Path), zap.NamedError("cause", err))
		s.Pages.Error(w, r, http.StatusForbidden, "error.closed", "")
		return
	}
	if errors.Is(err, secret.ErrBusy) || errors.Is(err, errTooMany) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || storage.IsFailure(err) {
		status, key = http.StatusServiceUnavailable, "error.unavailable"
	}
	ref := s.Pages.Error(w, r, status, key, again)
	s.Log.Error("request failed", zap.String("path", r.URL.Path), zap.Int("status", status), zap.String("ref", ref), zap.Error(err))
}
