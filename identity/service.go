// Package identity signs people in. It connects the packages below it, serves the sign-in page, and answers authz
// through the values of internal/authn.
package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/account"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/activation"
	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/handover"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/qrlogin"
	"github.com/gatehouse-id/gatehouse/identity/recovery"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/signup"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config is the operator's configuration. It must not be changed after New.
type Config struct {
	Issuer  string             // no trailing slash
	Persons []person.NewPerson // created if their username is free; never changed afterwards
	Session session.Config
	Lockout challenge.Config
	Locales []string
	// Partitions keep persons apart. Default: off.
	Partitions person.PartitionConfig
	// Providers are the identity providers other than the service itself, which is called identity.
	Providers []federation.Provider
	// ServiceProviders are the service providers at which people sign in by SAML, with this service as the identity
	// provider.
	ServiceProviders serviceprovider.Config
	Passkeys         passkey.Config
	// EmailUsernames says that usernames are e-mail addresses, here and in the Pages.
	EmailUsernames bool
	// SecondFactor says when a sign-in needs a second step if neither the settings nor the client say so: one of the
	// SecondFactor constants of package authn. Default: when_set_up
	SecondFactor string
	// CommonPasswords allows passwords that are on the list of common ones, or repeat a name of the person or the site.
	CommonPasswords bool
	// Brand is the name of the site, besides the host of the issuer.
	Brand string
	// HasRole reports whether groups of a partition give a role in the admin console. nil: no groups do.
	HasRole func(partition string, groups []string) bool
}

// Deps are the dependencies of the service. Store, Hasher and Pages are required.
type Deps struct {
	Store storage.Store
	// Keyring encrypts secrets in storage. Default: a new one, so a restart loses them.
	Keyring *secret.Keyring
	Hasher  *secret.Hasher
	Events  *audit.Recorder
	Pages   *web.Renderer
	// Units returns the settings of the configuration API as of tx. Default: the built-in ones.
	Units func(tx storage.Tx) (*settings.Units, error)
	// Notify sends e-mails. nil: e-mail is off.
	Notify notify.Sender
	// SMS sends text messages. nil: text messages are off.
	SMS notify.SMSSender
	// Push sends prompts to phones. nil: push is off.
	Push notify.PushSender
	// Breached reports whether a password is known from a breach. nil: the policy cannot demand the check.
	Breached person.BreachCheck
	// Manager returns the providers that can change while the service runs. nil: all are in Config.
	Manager federation.Manager
	// KeyPair returns a key pair of the configuration by its name; "" is Gatehouse's own for SAML. nil: there are no
	// service providers.
	KeyPair func(ctx context.Context, name string) (*idp.Key, error)
	// Trusted and Checked make requests for the metadata of service providers: to addresses that the operator has
	// written, and to others.
	Trusted, Checked *http.Client
	// Origin returns the origin of a request. Default: its peer address.
	Origin func(*http.Request) audit.Origin
	// Admit counts a flow that a sender begins, of which size bytes are stored, and returns false if there are too many.
	// Default: no limit.
	Admit func(r *http.Request, size int) bool
	// Refusals stores the reasons of refusals. nil: they are only logged.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service signs people in. It is safe for concurrent use. Callers use its parts directly.
type Service struct {
	Person      *person.Service
	Migration   *ldapmigration.Service
	Session     *session.Service
	Proof       *challenge.Service
	Front       *webflow.Service
	Federation  *federation.Service
	StepUp      *mfa.Service
	ActionToken *actiontoken.Service

	ServiceProviders *serviceprovider.Service
	Trusted          *trustedbrowser.Service
	QRLogin          *qrlogin.Service
	Assurance        *assurance.Service

	SignUp     *signup.Service
	Invitation *invitation.Service
	Activation *activation.Service
	Recovery   *recovery.Service
	Account    *account.Service

	// Differences are the differences between the persons of the configuration and the stored ones, at the start.
	Differences []person.Difference

	store   storage.Store
	events  *audit.Recorder
	pages   *web.Renderer
	units   func(tx storage.Tx) (*settings.Units, error)
	origin  func(*http.Request) audit.Origin
	jar     cookie.Jar
	issuer  string
	second  string // Config.SecondFactor
	refused *denial.Recorder
	log     *zap.Logger
	now     func() time.Time
	random  io.Reader

	mux    http.Handler
	part   *secret.Hasher // of Hasher, for API clients, which have a separate queue
	panics atomic.Int64
}

// New returns a service for one configuration, creates its persons that do not exist, and gives the others its groups.
// Several services can share one store, such as during a reload.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if err := deps.complete(); err != nil {
		return nil, err
	}
	s := &Service{
		store: deps.Store, events: deps.Events, pages: deps.Pages, units: deps.Units, origin: deps.Origin, jar: cookie.For(cfg.Issuer),
		issuer: cfg.Issuer, second: cmp.Or(cfg.SecondFactor, authn.SecondFactorWhenSetUp),
		refused: deps.Refusals, log: deps.Log, now: deps.Now, random: deps.Random, part: deps.Hasher.Part(),
	}
	if err := s.newServices(ctx, cfg, deps); err != nil {
		return nil, err
	}
	s.registerHooks()
	s.mux = s.routes()
	differ, err := s.Person.Configure(ctx, cfg.Persons)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	s.Differences = differ
	return s, nil
}

// complete fills in the defaults other than those of Now and Random.
func (d *Deps) complete() error {
	if d.Store == nil || d.Hasher == nil || d.Pages == nil {
		return errors.New("identity: Store, Hasher and Pages are required")
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	if d.Events == nil {
		d.Events = &audit.Recorder{Random: d.Random, Now: d.Now}
	}
	if d.Origin == nil {
		d.Origin = audit.PeerOrigin
	}
	if d.Units == nil {
		standard := settings.Defaults()
		d.Units = func(storage.Tx) (*settings.Units, error) { return &standard, nil }
	}
	if d.Admit == nil {
		d.Admit = func(*http.Request, int) bool { return true }
	}
	if d.Keyring != nil {
		return nil
	}
	key := make([]byte, secret.KeySize)
	if _, err := io.ReadFull(d.Random, key); err != nil {
		return err
	}
	ring, err := secret.NewKeyring(key)
	d.Keyring = ring
	return err
}

// siteNames returns the names that a password must not repeat: the brand, and the host of the issuer.
func siteNames(cfg Config) []string {
	names := []string{cfg.Brand}
	if u, err := url.Parse(cfg.Issuer); err == nil {
		names = append(names, u.Hostname())
	}
	return names
}

// newServices makes the parts, the lower ones first.
func (s *Service) newServices(ctx context.Context, cfg Config, d Deps) (err error) {
	if s.Person, err = person.New(ctx,
		person.Config{
			Partitions: cfg.Partitions, EmailUsernames: cfg.EmailUsernames, HasRole: cfg.HasRole, CommonPasswords: cfg.CommonPasswords,
			SiteNames: siteNames(cfg),
		}, person.Deps{
			Store: d.Store, Keyring: d.Keyring, Hasher: d.Hasher, Events: d.Events, Units: d.Units, Notify: d.Notify,
			SMS: d.SMS, Breached: d.Breached, Log: d.Log, Now: d.Now, Random: d.Random,
		}); err != nil {
		return err
	}
	s.Migration = &ldapmigration.Service{Store: d.Store, Persons: s.Person}
	if s.Session, err = session.New(cfg.Session, session.Deps{
		Person: s.Person, Store: d.Store, Events: d.Events, Units: d.Units, Origin: d.Origin, Jar: s.jar, Log: d.Log, Now: d.Now,
		Issuer: cfg.Issuer, Devices: dbsc.NewGuard(d.Random, d.Keyring.DeriveAll("gatehouse device v1")...),
	}); err != nil {
		return err
	}
	if s.Proof, err = challenge.New(cfg.Lockout, challenge.Deps{
		Person: s.Person, Session: s.Session, Store: d.Store, Keyring: d.Keyring, Hasher: d.Hasher, Events: d.Events,
		Units: d.Units, Origin: d.Origin, Refusals: d.Refusals, Log: d.Log, Now: d.Now, Random: d.Random,
	}); err != nil {
		return err
	}
	s.Front = webflow.New(webflow.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Store: d.Store, Events: d.Events, Units: d.Units,
		Notify: d.Notify, Pages: d.Pages, Origin: d.Origin, Admit: d.Admit, Jar: s.jar, Refusals: d.Refusals, Log: d.Log, Now: d.Now,
		Random: d.Random,
	})
	if s.Federation, err = federation.New(cfg.Providers, federation.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Store: d.Store, Keyring: d.Keyring,
		Events: d.Events, Units: d.Units, Notify: d.Notify, Pages: d.Pages, Manager: d.Manager, Origin: d.Origin,
		Admit: d.Admit, Jar: s.jar, Issuer: cfg.Issuer, Log: d.Log, Now: d.Now, Random: d.Random,
	}); err != nil {
		return err
	}
	s.Proof.SetFallback(handover.New(handover.Deps{
		Person: s.Person, Proof: s.Proof, Federation: s.Federation, Store: d.Store, Events: d.Events,
		Refusals: d.Refusals, Log: d.Log, Now: d.Now,
	}).Ask)
	if s.StepUp, err = mfa.New(cfg.Passkeys, mfa.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Federation: s.Federation, Store: d.Store,
		Keyring: d.Keyring, Hasher: d.Hasher, Events: d.Events, Units: d.Units, Notify: d.Notify, SMS: d.SMS,
		Push: d.Push, Pages: d.Pages, Origin: d.Origin, Jar: s.jar, Issuer: cfg.Issuer, Log: d.Log,
		Now: d.Now, Random: d.Random,
	}); err != nil {
		return err
	}
	if s.ServiceProviders, err = serviceprovider.New(cfg.ServiceProviders, serviceprovider.Deps{
		Person: s.Person, Session: s.Session, Front: s.Front, Store: d.Store, Events: d.Events, Units: d.Units,
		Pages: d.Pages, KeyPair: d.KeyPair,
		Trusted: d.Trusted, Checked: d.Checked, Origin: d.Origin, Admit: d.Admit, Jar: s.jar, Issuer: cfg.Issuer, Log: d.Log,
		Once: func(tx storage.Tx, key string, until time.Time) error {
			return federation.OnceIn(tx, "/sso", key, until)
		},
		Now: d.Now, Random: d.Random,
	}); err != nil {
		return err
	}
	s.Trusted = trustedbrowser.New(trustedbrowser.Deps{
		Person: s.Person, Session: s.Session, Front: s.Front, Store: d.Store, Events: d.Events, Units: d.Units, Pages: d.Pages,
		Origin: d.Origin, Jar: s.jar,
		Now: d.Now, Random: d.Random,
	})
	s.ActionToken = actiontoken.New(actiontoken.Deps{
		Person: s.Person, Session: s.Session, Front: s.Front, Federation: s.Federation, Store: d.Store, Events: d.Events,
		Units: d.Units, Pages: d.Pages, Origin: d.Origin, Jar: s.jar, Issuer: cfg.Issuer, Now: d.Now, Random: d.Random,
	})
	s.Assurance = assurance.New(assurance.Deps{Person: s.Person, Store: d.Store, Now: d.Now})
	s.QRLogin = qrlogin.New(qrlogin.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Federation: s.Federation, StepUp: s.StepUp, Store: d.Store,
		Keyring: d.Keyring, Events: d.Events, Units: d.Units, Pages: d.Pages, Origin: d.Origin, Jar: s.jar, Issuer: cfg.Issuer, Log: d.Log,
		Now: d.Now, Random: d.Random,
	})
	s.SignUp = signup.New(signup.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Federation: s.Federation, Store: d.Store, Keyring: d.Keyring,
		Events: d.Events, Notify: d.Notify, SMS: d.SMS, Pages: d.Pages, Origin: d.Origin, Admit: d.Admit, Jar: s.jar,
		Now: d.Now, Random: d.Random,
	})
	s.Invitation = invitation.New(invitation.Deps{
		Person: s.Person, Proof: s.Proof, Front: s.Front, Federation: s.Federation, Store: d.Store, Events: d.Events, Units: d.Units,
		Pages: d.Pages, Origin: d.Origin, Jar: s.jar, Issuer: cfg.Issuer, Now: d.Now, Random: d.Random,
	})
	s.Activation = activation.New(activation.Deps{
		Person: s.Person, Proof: s.Proof, Front: s.Front, Store: d.Store, Events: d.Events, Units: d.Units, Notify: d.Notify,
		Pages: d.Pages, Origin: d.Origin, Jar: s.jar, Now: d.Now, Random: d.Random,
	})
	s.Recovery = recovery.New(recovery.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Federation: s.Federation, Store: d.Store, Events: d.Events,
		Units: d.Units, Notify: d.Notify, SMS: d.SMS, Origin: d.Origin, Admit: d.Admit, Jar: s.jar, Issuer: cfg.Issuer,
		Now: d.Now, Random: d.Random,
	})
	s.Account = account.New(account.Deps{
		Person: s.Person, Session: s.Session, Proof: s.Proof, Front: s.Front, Federation: s.Federation, StepUp: s.StepUp, Trusted: s.Trusted,
		Store: d.Store, Events: d.Events, Units: d.Units, Notify: d.Notify, Pages: d.Pages, Origin: d.Origin, Jar: s.jar,
		Issuer: cfg.Issuer, Log: d.Log,
		Now: d.Now, Random: d.Random,
	})
	return nil
}
