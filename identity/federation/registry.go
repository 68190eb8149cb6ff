package federation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Manager knows the providers of the configuration API.
type Manager interface {
	// Providers returns the providers of these settings. The version changes with them. Any error: they are unknown.
	Providers(ctx context.Context, u *settings.Units) (list []Provider, version uint64, err error)
}

// StepUps are the functions of step-ups that the ways to sign in need.
type StepUps struct {
	// Reachable returns the highest level that some person could step up to, and the highest level that can be reached
	// from a password.
	Reachable func(u *settings.Units) (reach, byPassword int)
	Passkeys  func() bool // reports whether there are passkeys at all
	// SetUpLevel returns the level that a session of the person needs to add a way to sign in.
	SetUpLevel func(tx storage.Tx, si *session.Current) (int, error)
	// Phone returns the level of a sign-in that a phone approves, by a login method, "" for the service's own. 0: no
	// such sign-in. shown reports whether the sign-in page offers it.
	Phone func(u *settings.Units, method string) (level int, shown bool)
}

// RaiseBy sets how sign-ins are raised. New calls it before the service is used.
func (s *Service) RaiseBy(w StepUps) { s.raising = w }

// Registry is the providers of one moment.
type Registry struct {
	version uint64
	byID    map[string]*Member
	order   []string // as people see them
	// NoPassword says that the identity service itself signs no one in.
	NoPassword bool
	passkeys   bool // sign people in where passwords do
	// Reach is the highest level that a person who has signed in can step up to, byPassword the highest from a password.
	Reach, byPassword int
	phone             func(method string) (level int, shown bool)
}

// newRegistry returns the providers of the configuration file, which gives them no order: people see them by their
// names.
func newRegistry(list []Provider) (*Registry, error) {
	g := &Registry{byID: map[string]*Member{}}
	for _, p := range list {
		if p.ID == "" || p.ID == session.LocalProvider || g.byID[p.ID] != nil {
			return nil, fmt.Errorf("identity: the provider %q has no id of its own", p.ID)
		}
		m, err := newMember(p)
		if err != nil {
			return nil, err
		}
		g.byID[p.ID], g.order = m, append(g.order, p.ID)
	}
	// The root collation is that of every language of the pages.
	by := collate.New(language.Und, collate.Numeric)
	slices.SortStableFunc(g.order, func(a, b string) int { return by.CompareString(g.byID[a].Name, g.byID[b].Name) })
	return g, nil
}

// with adds managed providers after the others, in the order of the list of the configuration API. One that cannot be
// used is left out: it must not keep people from signing in by others.
func (g *Registry) with(list []Provider, version uint64) *Registry {
	out := &Registry{version: version, byID: maps.Clone(g.byID), order: slices.Clone(g.order)}
	for _, p := range list {
		if p.ID == "" || p.ID == session.LocalProvider || out.byID[p.ID] != nil {
			continue
		}
		p.Managed = true
		m, err := newMember(p)
		if err != nil || m.Reader != nil { // only providers of the configuration file may read requests
			continue
		}
		out.byID[p.ID], out.order = m, append(out.order, p.ID)
	}
	return out
}

// Get returns a provider that is switched on, or nil.
func (g *Registry) Get(id string) *Member {
	if m := g.byID[id]; m != nil && !m.Disabled {
		return m
	}
	return nil
}

// AdmitsRoles reports whether a provider can sign in people with a role in the admin console, as tx sees the settings:
// one of the settings can if an owner has allowed that.
func (s *Service) AdmitsRoles(tx storage.Tx, id string) (bool, error) {
	if m := s.fixed.byID[id]; m != nil {
		return m.admitsRoles(), nil
	}
	u, err := s.deps.Units(tx)
	return err == nil && u.AdmitsRoles(id), err
}

// SignsIn reports whether people can sign in by a provider, as tx sees the settings: it exists and is not disabled.
func (s *Service) SignsIn(tx storage.Tx, id string) (bool, error) {
	if id == "" || id == session.LocalProvider {
		return true, nil
	}
	if m := s.fixed.byID[id]; m != nil {
		return !m.Disabled, nil
	}
	u, err := s.deps.Units(tx)
	return err == nil && u.SignsIn(id), err
}

// Registry returns the providers of these settings, whether passwords sign people in, and which level can be stepped up
// to.
func (s *Service) Registry(ctx context.Context, u *settings.Units) (*Registry, error) {
	g, err := s.load(ctx, u)
	if err != nil {
		return nil, err
	}
	now := *g
	now.NoPassword, now.passkeys = !u.PasswordLogin(), s.raising.Passkeys()
	now.Reach, now.byPassword = s.raising.Reachable(u)
	now.phone = func(method string) (int, bool) { return s.raising.Phone(u, method) }
	return &now, nil
}

// load returns the providers of these settings, including the disabled ones.
func (s *Service) load(ctx context.Context, u *settings.Units) (*Registry, error) {
	if s.deps.Manager == nil {
		return s.fixed, nil
	}
	list, version, err := s.deps.Manager.Providers(ctx, u)
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

// Current is Registry for callers that have not read the settings.
func (s *Service) Current(ctx context.Context) (*Registry, error) {
	u, err := s.deps.Person.Settings(ctx)
	if err != nil {
		return nil, err
	}
	return s.Registry(ctx, u)
}

// Providers returns the present providers, including the disabled ones. The version changes with those that are
// managed.
func (s *Service) Providers(ctx context.Context) (list []Provider, version uint64, err error) {
	u, err := s.deps.Person.Settings(ctx)
	if err != nil {
		return nil, 0, err
	}
	g, err := s.load(ctx, u)
	if err != nil {
		return nil, 0, err
	}
	list = make([]Provider, 0, len(g.order))
	for _, id := range g.order {
		list = append(list, g.byID[id].Provider)
	}
	return list, g.version, nil
}

// last returns the providers as they were read last.
func (s *Service) last() *Registry {
	if g := s.managed.Load(); g != nil {
		return g
	}
	return s.fixed
}

// Connectable are the providers, as they were read last, where people can link an account.
func (s *Service) Connectable() (out []*Member) {
	g := s.last()
	for _, id := range g.order {
		if m := g.Get(id); m != nil && m.links() {
			out = append(out, m)
		}
	}
	return out
}

// ProviderName returns the name of a provider for people.
func (s *Service) ProviderName(id string) string {
	if m := s.last().byID[id]; m != nil {
		return m.Name
	}
	return id
}

// IsLeft reports whether people move here from a directory: those who are linked with it have their passwords here.
func (s *Service) IsLeft(id string) bool {
	m := s.last().byID[id]
	return m != nil && !m.links()
}
