package federation

import (
	"context"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/idp"
)

// OldDirectories are the providers that people move here from, which are asked about the password of someone unknown.
func (g *Registry) OldDirectories() (out []*Member) {
	for _, id := range g.order {
		if m := g.Get(id); m != nil && m.Migrates {
			out = append(out, m)
		}
	}
	return out
}

// canMigrate reports whether the source of a provider can be asked about a password.
func (m *Member) canMigrate() bool { return m.taker != nil || m.asker != nil }

// Redirects reports whether browsers are sent to the provider.
func (m *Member) Redirects() bool { return m.redirector != nil }

// Names returns the username that the provider gives a newcomer, or "" where it must not choose one.
func (m *Member) Names(id *idp.Identity) string { return m.names(id) }

// OwnGroups are the groups of an identity that the provider puts people into.
func (m *Member) OwnGroups(id *idp.Identity) (out []string) {
	if m.taker == nil {
		return nil
	}
	own := m.taker.OwnGroups()
	for _, g := range id.Groups {
		if slices.Contains(own, g) {
			out = append(out, g)
		}
	}
	return out
}

// AskOld asks an old directory whether a username and a password are a pair, and returns whose they are. Errors as
// those of idp.PasswordTaker.
func (s *Service) AskOld(ctx context.Context, m *Member, c idp.Credentials) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	var id *idp.Identity
	var err error
	if m.taker != nil {
		id, err = m.taker.SignIn(ctx, c)
	} else {
		id, err = m.asker.AskPassword(ctx, c)
	}
	if err == nil {
		id, err = s.acceptable(id)
	}
	if err != nil {
		return nil, err
	}
	id.Details = maps.Clone(id.Details) // the provider's own
	m.settle(id)
	return id, nil
}
