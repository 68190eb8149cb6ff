package admin

import (
	"cmp"
	"context"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Use says whether a person can use an application.
type Use struct {
	ClientID, Name string
	// Refused is why no one, or not this person, can: nil if they can.
	Refused error
	// Level is the level of a sign-in that the application needs for what it asks for by default. 0: any
	Level int
}

// peopleUse are the grants by which people use applications.
var peopleUse = []string{client.GrantCode, client.GrantDevice, client.GrantPassword}

// Uses returns the applications for people, in the order of their ids, and whether a person can use them: as the
// authorization server decides about their requests. What a person has to consent to is not asked here.
func (s *Service) Uses(ctx context.Context, p *PersonDetails) (out []Use, err error) {
	clients := s.Authz.Clients()
	if err := clients.RefreshProviders(ctx); err != nil {
		return nil, err
	}
	list, err := clients.List(ctx)
	for i := range list {
		if use, ok := s.use(&list[i].Client, p); ok {
			out = append(out, use)
		}
	}
	return out, err
}

// UseOf reports whether a person can use an application, as Uses does. ok is false for one that is not for people.
func (s *Service) UseOf(ctx context.Context, c *client.Client, p *PersonDetails) (use Use, ok bool, err error) {
	if err := s.Authz.Clients().RefreshProviders(ctx); err != nil {
		return use, false, err
	}
	use, ok = s.use(c, p)
	return use, ok, nil
}

// use decides about one application.
func (s *Service) use(c *client.Client, p *PersonDetails) (use Use, ok bool) {
	clients := s.Authz.Clients()
	at := slices.IndexFunc(peopleUse, c.HasGrant)
	if at < 0 {
		return use, false
	}
	use = Use{ClientID: c.ID, Name: cmp.Or(c.Name, c.ID), Level: clients.ScopeLevel(c.DefaultScopes)}
	for _, provider := range waysOf(p) {
		use.Refused = clients.May(c, clientstore.Permission{Grant: peopleUse[at], Scope: c.DefaultScopes, Provider: provider})
		if use.Refused == nil {
			break
		}
	}
	if use.Refused == nil {
		use.Refused = clients.MayPerson(c, &authn.Subject{Groups: s.Identity.Person.GroupsOutside(&p.Person)})
	}
	if use.Refused == nil && p.State != person.Active {
		use.Refused = &person.StateError{State: p.State}
	}
	return use, true
}

// waysOf are the identity providers by which a person can sign in: that of their session, this server, and others that
// know them.
func waysOf(p *PersonDetails) (out []string) {
	for _, s := range p.Sessions {
		out = append(out, cmp.Or(s.Provider, session.LocalProvider))
	}
	if p.HasPassword || p.StepUp.Passkeys > 0 || len(p.Linked) == 0 {
		out = append(out, session.LocalProvider)
	}
	for _, l := range p.Linked {
		out = append(out, l.Provider)
	}
	return out
}
