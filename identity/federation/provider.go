package federation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Unreachable says that no sign-in there is reaches the level that is demanded.
func Unreachable(d login.Demand) error { return unreachableAt(d) }

func unreachableAt(d login.Demand) *login.Refusal {
	code := front.UnmetLevel
	if d.Passive {
		code = "interaction_required"
	}
	return &login.Refusal{Code: code, Reason: "the authentication level cannot be reached"}
}

// providerTimeout is how long a provider may keep a browser waiting, unless the operator says otherwise.
const providerTimeout = 5 * time.Second

// Provider is an identity provider beside the service itself.
type Provider struct {
	ID   string // what clients and the parameter idp call it
	Name string // for people, in events. Default: the id
	// Disabled providers sign nobody in.
	Disabled bool
	// Source is one of the interfaces of idp beside Provider.
	Source idp.Provider
	// Path is the first part of the provider's endpoints, saml or oidc. Empty: it has none.
	Path string
	// CoupleEmail couples an identity with the person who has the same verified e-mail address.
	CoupleEmail bool
	// Domains are e-mail domains, in lower case, whose usernames lead to the provider.
	Domains []string
	// Timeout is how long Begin and Finish may take. Default: 5 seconds
	Timeout time.Duration
	// Managed providers are those of the configuration API: whoever may use the service itself may use them.
	Managed bool
	// VerifiesEmail says that addresses of the provider are the persons' own, whatever it says itself.
	VerifiesEmail bool
	// Activates says that whoever signs in there needs no other activation of the account.
	Activates bool
	// Synchronise writes what the provider says of a person into the profile at each sign-in.
	Synchronise bool
	// Editable are the details that the person may change all the same: what there is of them is left as it is.
	Editable []string
}

// SynchronisedDetails are the parts of a profile that a provider may write, with the names of the details that say them.
var SynchronisedDetails = map[string][]string{
	"name": {"name", "displayName", "display_name"}, "given_name": {"given_name", "firstName", "first_name"},
	"family_name": {"family_name", "lastName", "last_name"}, "locale": {"locale", "preferred_locale"}, "email": {"email", "mail"},
}

// Writes tells whether the provider writes a part of the profile, whatever the person has put there.
func (p *Provider) Writes(part string) bool {
	return p.Synchronise && !slices.ContainsFunc(SynchronisedDetails[part], func(name string) bool { return slices.Contains(p.Editable, name) })
}

// Manager knows the providers of the configuration API.
type Manager interface {
	// Providers returns the providers of these settings. The version changes with them. Any error: nobody can tell.
	Providers(ctx context.Context, u *config.Units) (list []Provider, version uint64, err error)
}

// Member is a provider ready for use. At most one of reader and redirector is nil.
type Member struct {
	Provider

	Reader     idp.RequestReader
	redirector idp.Redirector
	parameters []string
}

// Registry is the providers of one moment.
type Registry struct {
	version uint64
	byID    map[string]*Member
	order   []string // as people see them
	// noPassword: the identity service itself signs nobody in.
	NoPassword bool
	// passkeys sign people in, too, where passwords do.
	passkeys bool
	// reach and byPassword are as reachable says: reach is the highest level that somebody who has signed in may step up to.
	Reach, byPassword int
}

func register(p Provider) (*Member, error) {
	if p.Source == nil {
		return nil, fmt.Errorf("identity: the provider %q has no source", p.ID)
	}
	r := &Member{Provider: p, parameters: p.Source.Parameters()}
	if r.Name == "" {
		r.Name = r.ID
	}
	if r.Timeout <= 0 {
		r.Timeout = providerTimeout
	}
	r.Reader, _ = p.Source.(idp.RequestReader)
	r.redirector, _ = p.Source.(idp.Redirector)
	if r.Reader == nil && r.redirector == nil {
		return nil, fmt.Errorf("identity: the provider %q can do nothing that a sign-in needs", p.ID)
	}
	return r, nil
}

// fixedProviders are those of the configuration file, sorted by it.
func fixedProviders(of []Provider) (*Registry, error) {
	g := &Registry{byID: map[string]*Member{}}
	for _, p := range of {
		if p.ID == "" || p.ID == session.LocalProvider || g.byID[p.ID] != nil {
			return nil, fmt.Errorf("identity: the provider %q has no id of its own", p.ID)
		}
		r, err := register(p)
		if err != nil {
			return nil, err
		}
		g.byID[p.ID], g.order = r, append(g.order, p.ID)
	}
	return g, nil
}

// with adds providers that are managed. What cannot be used is left out, since it must not keep anybody else from signing in.
func (g *Registry) with(list []Provider, version uint64) *Registry {
	out := &Registry{version: version, byID: map[string]*Member{}, order: slices.Clone(g.order)}
	for id, r := range g.byID {
		out.byID[id] = r
	}
	for _, p := range list {
		if p.ID == "" || p.ID == session.LocalProvider || out.byID[p.ID] != nil {
			continue
		}
		p.Managed = true
		r, err := register(p)
		if err != nil || r.Reader != nil { // reading requests is for the configuration file
			continue
		}
		out.byID[p.ID], out.order = r, append(out.order, p.ID)
	}
	return out
}

// StepUps is what the ways to sign in need to know of step-ups.
type StepUps struct {
	// reachable is the highest level that some person could step up to, and the highest that a password helps to get to.
	Reachable func(u *config.Units) (reach, byPassword int)
	Passkeys  func() bool // tells whether there are passkeys at all
}

// RaiseBy sets how sign-ins are raised. New calls it before the service is used.
func (s *Service) RaiseBy(w StepUps) { s.raising = w }

// Registry returns the providers of these settings, whether passwords sign anybody in, and which level can be stepped up to.
func (s *Service) Registry(ctx context.Context, u *config.Units) (*Registry, error) {
	g, err := s.KnownProviders(ctx, u)
	if err != nil {
		return nil, err
	}
	now := *g
	now.NoPassword, now.passkeys = !u.PasswordLogin(), s.raising.Passkeys()
	now.Reach, now.byPassword = s.raising.Reachable(u)
	return &now, nil
}

// KnownProviders returns the providers of these settings, the disabled ones too.
func (s *Service) KnownProviders(ctx context.Context, u *config.Units) (*Registry, error) {
	if s.manager == nil {
		return s.fixed, nil
	}
	list, version, err := s.manager.Providers(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("read the identity providers: %w", err)
	}
	if g := s.managed.Load(); g != nil && g.version == version {
		return g, nil
	}
	g := s.fixed.with(list, version)
	s.managed.Store(g)
	return g, nil
}

// Current is Registry for what serves no page and reads the settings itself.
func (s *Service) Current(ctx context.Context) (*Registry, error) {
	u, err := s.person.Settings(ctx)
	if err != nil {
		return nil, err
	}
	return s.Registry(ctx, u)
}

// Providers returns the providers there are now, the disabled ones too. The version changes with those that are managed.
func (s *Service) Providers(ctx context.Context) (list []Provider, version uint64, err error) {
	u, err := s.person.Settings(ctx)
	if err != nil {
		return nil, 0, err
	}
	g, err := s.KnownProviders(ctx, u)
	if err != nil {
		return nil, 0, err
	}
	out := make([]Provider, 0, len(g.order))
	for _, id := range g.order {
		out = append(out, g.byID[id].Provider)
	}
	return out, g.version, nil
}

// Get returns a provider that is switched on, or nil.
func (g *Registry) Get(id string) *Member {
	if r := g.byID[id]; r != nil && !r.Disabled {
		return r
	}
	return nil
}

// OfService is the demand where the service itself is asked for: the providers that it manages are its own.
func (g *Registry) OfService(d login.Demand) login.Demand {
	if d.Provider != session.LocalProvider {
		return d
	}
	ids := []string{session.LocalProvider}
	for _, id := range g.order {
		if p := g.Get(id); p != nil && p.Managed && (len(d.Providers) == 0 || slices.Contains(d.Providers, id)) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 1 {
		d.Provider, d.Providers = "", ids
	}
	return d
}

// Ways are how a person can sign in for a demand.
type Ways struct {
	Password  bool
	Passkey   bool
	Providers []*Member // to be redirected to
	// straight is the provider that the browser is sent to without being asked; nil: the person chooses.
	Straight *Member
}

// Find returns one of the providers, or nil.
func (w *Ways) Find(id string) *Member {
	for _, p := range w.Providers {
		if p.ID == id {
			return p
		}
	}
	return nil
}

// Alone tells whether there is nothing to choose.
func (w *Ways) Alone() bool { return !w.Password && !w.Passkey && len(w.Providers) == 1 }

// ByUsername returns the provider that a username leads to by its e-mail domain, or nil.
func (w *Ways) ByUsername(username string) *Member {
	domain := emailDomain(username)
	if domain == "" {
		return nil
	}
	for _, p := range w.Providers {
		if slices.Contains(p.Domains, domain) {
			return p
		}
	}
	return nil
}

// HasDomains tells whether a username may lead to a provider.
func (w *Ways) HasDomains() bool {
	return slices.ContainsFunc(w.Providers, func(p *Member) bool { return len(p.Domains) > 0 })
}

// Ways returns how a demand can be met.
func (g *Registry) Ways(d login.Demand) *Ways {
	ids := d.Providers
	switch {
	case d.Provider != "":
		ids = []string{d.Provider}
	case len(ids) == 0:
		ids = append([]string{session.LocalProvider}, g.order...)
	}
	out := &Ways{}
	for _, id := range ids {
		if id == session.LocalProvider {
			out.Password = d.Level <= max(session.PasswordLevel, g.byPassword) && !g.NoPassword
			out.Passkey = d.Level <= session.PasskeyLevel && !g.NoPassword && g.passkeys
		} else if p := g.Get(id); p != nil && p.redirector != nil && out.Find(id) == nil {
			out.Providers = append(out.Providers, p)
		}
	}
	// The first of a client's providers is its default.
	if first := g.Get(ids[0]); first != nil && first.redirector != nil && !(d.SelectAccount && len(ids) > 1) {
		out.Straight = first
	} else if out.Alone() {
		out.Straight = out.Providers[0]
	}
	return out
}

// Once returns the function that a provider marks with what it has used. Each provider has keys of its own.
func Once(store storage.Store, now func() time.Time, providerID string) func(ctx context.Context, key string, until time.Time) error {
	return func(ctx context.Context, key string, until time.Time) error {
		if !until.After(now()) {
			return nil // what is over is refused for that
		}
		err := store.Update(ctx, func(tx storage.Tx) error {
			return onces.Create(tx, storage.Key(providerID, secret.Hash(key)), onceRecord{Until: until}, until.Add(session.CollectAfter))
		})
		if errors.Is(err, storage.ErrExists) {
			return idp.ErrReplayed
		}
		return err
	}
}

// ProviderName is what people call a provider.
func (s *Service) ProviderName(id string) string {
	for _, g := range []*Registry{s.managed.Load(), s.fixed} {
		if g != nil && g.byID[id] != nil {
			return g.byID[id].Name
		}
	}
	return id
}
