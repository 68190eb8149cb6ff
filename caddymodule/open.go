package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy/stored"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/access/notice"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/pwned"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/storage"
)

// builder opens an instance part by part.
type builder struct {
	*App
	inst      *instance
	events    *audit.Recorder
	providers []federation.Provider // of the configuration file, ready
}

// open opens everything that the configuration needs. After an error nothing stays open.
func (a *App) open() (*instance, error) {
	b := &builder{App: a, inst: &instance{
		issuer: a.issuer, gates: a.ForwardAuth, log: a.log, gone: make(chan struct{}),
		now: time.Now, hasRules: a.hasRules,
	}}
	b.inst.users.Store(1)
	for _, open := range []func() error{
		b.openCore, b.openPages, b.openEvents, b.openConfig, b.openProviders, b.openSenders, b.openBreach, b.openIdentity, b.openAuthz,
		b.openConsole, b.openAPIs, b.openMetrics,
	} {
		if err := open(); err != nil {
			b.inst.close()
			return nil, err
		}
	}
	if err := a.examineStart(b.inst); err != nil {
		b.inst.close()
		return nil, err
	}
	b.lead()
	b.inst.work(a)
	return b.inst, nil
}

// lead has the open store, which outlives configurations, use what is of this one. When this configuration ends, or its
// start fails after all, as when a port is taken, the store goes back to the newest that is left.
func (b *builder) lead() {
	c := b.inst.core
	for _, release := range []func(){
		c.Recorder.Use(b.events), c.Contact.Use(b.inst.tellContact), c.Robots.Fetch(outbound.New(false, b.allow...)),
		c.Metrics.ShowFigures(b.inst.figures()),
	} {
		b.inst.onClose("open store", func() error {
			release()
			return nil
		})
	}
}

func (b *builder) openCore() (err error) {
	c := b.early
	if b.early = nil; c == nil {
		if c, err = shared.Open(b.ctx, b.storage, b.keys, b.cost, b.log); err != nil {
			return b.Places.LocateIn(err, "storage")
		}
	}
	b.inst.core, b.inst.admit = c, c.Pace.Admit
	b.inst.onClose("storage", c.Release)
	return nil
}

func (b *builder) openPages() (err error) {
	b.inst.pages, err = b.newPages(b.inst.core.Keyring.Derive("gatehouse csrf v1"))
	return err
}

func (b *builder) openEvents() (err error) {
	if b.events, b.inst.tell, err = b.newEvents(b.inst.core); err != nil {
		return err
	}
	b.inst.onClose("events", func() error {
		b.inst.tell.release()
		return nil
	})
	return nil
}

func (b *builder) openConfig() (err error) {
	if b.inst.config, err = b.newUnits(b.inst, b.events); err != nil {
		return err
	}
	b.inst.policies = stored.New(b.policyLoader(), b.inst.core.Store, b.inst.config, b.log.Named("policies"))
	if _, _, err = b.inst.policies.Current(b.ctx); err != nil {
		return err
	}
	signs := func(name string) []string {
		if slices.Contains(b.persons.ServiceProviders.Sign, name) {
			return []string{"saml_sign"}
		}
		return nil
	}
	b.inst.config.KeyPairs().OnUse(b.idps.KeyUsers, b.idps.Signers)
	b.inst.config.KeyPairs().OnUse(signs, signs)
	b.inst.pages.SetOverrides(b.inst.config.Overrides)
	b.inst.pages.SetOrganisations(b.inst.config.PageOrganisations)
	return nil
}

func (b *builder) openProviders() (err error) {
	b.inst.providers = provider.NewManager(provider.Deps{
		Issuer: b.issuer.String(), File: b.idps, Allow: b.allow, Store: b.inst.core.Store, Config: b.inst.config, Log: b.log.Named("idp"),
	})
	b.inst.onClose("identity providers", func() error {
		b.inst.providers.Close()
		return nil
	})
	b.providers, err = b.inst.providers.Open(b.ctx, b.persons.Providers)
	return err
}

func (b *builder) openSenders() (err error) {
	if b.inst.mail, err = b.openMail(b.inst.core, b.inst.pages); err != nil {
		return err
	}
	if b.inst.texts, err = b.openSMS(b.inst.core, b.inst.pages); err != nil {
		return err
	}
	b.inst.pushes, err = b.openPush(b.inst.core, b.inst.pages)
	return err
}

func (b *builder) openBreach() (err error) {
	if b.inst.breach, err = pwned.New(b.breach, nil); err != nil {
		return err
	}
	b.inst.onClose("file of breached passwords", b.inst.breach.Close)
	return nil
}

func (b *builder) openIdentity() (err error) {
	c, persons := b.inst.core, b.persons
	persons.Providers = b.providers
	persons.Brand = b.brand.Name
	persons.HasRole = func(partition string, groups []string) bool {
		return b.console.RoleOf(partition, groups) != layout.Nobody
	}
	deps := identity.Deps{
		Store: c.Store, Keyring: c.Keyring, Hasher: c.Hasher, Events: b.events, Pages: b.inst.pages, Origin: b.Origin, Admit: b.inst.admit,
		Refusals: c.Refused, Log: b.log.Named("identity"),
		Units: b.inst.config.Units, Manager: b.inst.providers, Breached: b.inst.breach, KeyPair: b.inst.providers.KeyPair,
	}
	deps.Trusted, deps.Checked = b.inst.providers.Clients()
	// An interface that holds a nil pointer is not nil, so what is not configured is left out.
	if b.inst.mail != nil {
		deps.Notify = b.inst.mail
	}
	if b.inst.texts != nil {
		deps.SMS = b.inst.texts
	}
	if b.inst.pushes != nil {
		deps.Push = b.inst.pushes
	}
	if b.inst.identity, err = identity.New(b.ctx, persons, deps); err != nil {
		return err
	}
	b.inst.identity.Session.CountDevicesBy(c.Metrics.CountDevice)
	c.Refused.Know(b.personOf(b.inst.identity))
	asked := access.Deps{Store: c.Store, Events: b.events, Now: time.Now}
	if b.inst.mail != nil {
		b.accessMail.Page = func(tx storage.Tx, requestID string) (string, error) {
			units, err := b.inst.config.Units(tx)
			if err != nil || !units.Features.AdminConsoleEnabled {
				return "", err
			}
			return sites.RequestPath(requestID), nil
		}
		asked.Tell = notice.New(b.accessMail, b.inst.identity.Person).Tell
	}
	b.inst.access = access.New(asked)
	return nil
}

// personOf looks up the person of a refusal that has only the id.
func (b *builder) personOf(id *identity.Service) denial.PersonFunc {
	return func(tx storage.Tx, personID string) (username, partition string, err error) {
		who, err := id.Person.Get(tx, personID)
		if errors.Is(err, storage.ErrNotFound) {
			return "", "", nil
		}
		if err == nil && b.persons.Partitions.On {
			partition, err = person.PartitionOfID(tx, personID)
		}
		return who.Username, partition, err
	}
}

// feature returns a function that reads a switch of the settings in a transaction.
func (b *builder) feature(of func(*settings.Features) bool) func(storage.Tx) (bool, error) {
	return func(tx storage.Tx) (bool, error) {
		units, err := b.inst.config.Units(tx)
		if err != nil {
			return false, err
		}
		return of(&units.Features), nil
	}
}

func (b *builder) openAuthz() (err error) {
	c, id := b.inst.core, b.inst.identity
	b.mu.Lock()
	b.authz.SiteOrigins, b.authz.AppPasswordSites = slices.Sorted(maps.Keys(b.sites)), b.accepting
	b.authz.Signatures = b.signatures
	b.mu.Unlock()
	b.authz.Resources = nil
	for _, known := range b.mcp.Known() {
		b.authz.Resources = append(b.authz.Resources,
			client.Resource{URI: known.Resource, Name: known.Name, Scopes: known.Scopes, Tools: known.Tools, First: known.First})
	}
	if b.ClientDocuments == nil || b.ClientDocuments.Switch == "" {
		b.authz.Documents.On = len(b.authz.Resources) > 0
	}
	b.inst.authz, err = authz.New(b.ctx, b.authz, authz.Deps{
		Store: c.Store, Keys: c.Keys, Keyring: c.Keyring, Hasher: c.Hasher, SlowSecrets: c.SlowSecrets, Events: b.events,
		Auth: id, Subjects: id.Subjects(), Passwords: id,
		Providers:    authzProviders{id},
		AppPasswords: b.feature(func(f *settings.Features) bool { return f.AppPasswordsEnabled }),
		Experimental: b.feature(func(f *settings.Features) bool { return f.ExperimentalFeaturesEnabled }),
		Unlinked:     id.Account.Unlinked, AfterLogout: id.Front.AfterLogout, Pages: b.inst.pages, Origin: b.Origin,
		Certificate: b.certificates.Of, Called: c.Metrics.Sites.Called, ClientCalled: c.Metrics.Sites.ClientCalled,
		OrganisationOf: b.inst.organisationOf, Admit: b.inst.admit, Refusals: c.Refused, UsedProofs: c.Proofs, Log: b.log.Named("authz"),
	})
	if err != nil {
		return err
	}
	b.inst.pages.SetLogos(logo.Shown{Store: c.Store, Declares: b.inst.authz.Clients().Declares, Providers: b.inst.config.PageLogos})
	if b.authz.Signals.On {
		b.inst.tell.also = b.inst.authz.Tell
	}
	b.inst.assertions = assertion.New(b.authz.Issuer, c.Keys, nil)
	b.inst.transactions = transaction.New(b.authz.Issuer, c.Keys, nil, nil)
	id.Person.Watch(id.ServiceProviders.WithWatcher(b.inst.authz))
	id.Account.Tie(id.ServiceProviders.With(b.inst.authz))
	id.Account.TieAppPasswords(b.inst.authz.AppPasswords())
	id.Person.OnRemove(b.inst.authz.AppPasswords().Forget)
	return nil
}

func (b *builder) openAPIs() error { return b.inst.openAPIs(b.App) }

func (b *builder) openMetrics() error {
	if err := b.inst.core.Metrics.Register(b.ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
