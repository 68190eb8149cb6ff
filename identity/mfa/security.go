package mfa

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Section is a part of the page about how a person signs in. It returns nil where there is nothing to show.
type Section func(tx storage.Tx, q *webflow.Request, st *Standing) (*web.SecuritySection, error)

// MethodSections returns the parts about the methods, in their order.
func (s *Service) MethodSections() []Section {
	return []Section{
		s.passkeySection, authenticatorSection, recoverySection, s.pinSection, s.pushSection, s.smsSection,
		emailSection, preferredSection,
	}
}

// AddSections adds parts to the page. identity.New calls it before the service is used.
func (s *Service) AddSections(parts ...Section) { s.sections = append(s.sections, parts...) }

// switchedOff is the part about a method that the person has not set up.
func switchedOff(m *Method) *web.SecuritySection {
	return &web.SecuritySection{Key: m.Name, State: "off", Actions: []web.SecurityAction{{Label: "security.set_up", URL: m.setUp}}}
}

// switchedOn is the part about a method that the person can remove, and last used then.
func switchedOn(m *Method, used time.Time) *web.SecuritySection {
	return &web.SecuritySection{
		Key: m.Name, State: "on", Used: used,
		Actions: []web.SecurityAction{{Label: "security.remove", URL: removeURL(m)}},
	}
}

// showSecurity serves GET /account/security: how the person signs in, and where to change that.
func (s *Service) showSecurity(q *webflow.Request) error {
	q.Again = webflow.SecurityPath
	if err := s.deps.Front.NeedLevel(q, webflow.DashboardLevel(q.Settings), webflow.SecurityPath); err != nil {
		return err
	}
	data, signals := web.Security{Back: person.DefaultReturn}, ""
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		data.Sections = nil
		var err error
		if signals, err = s.PasskeySignals(tx, q.SignIn); err != nil {
			return err
		}
		st, err := s.StandingIn(tx, q.SignIn, q.Settings)
		if err != nil {
			return err
		}
		for _, section := range s.sections {
			part, err := section(tx, q, st)
			if err != nil {
				return err
			}
			if part != nil {
				data.Sections = append(data.Sections, *part)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	nav, err := s.deps.Front.Nav(q)
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "security", Locales: q.SignIn.Locales(), Nav: nav, Signals: signals, Data: data})
	return nil
}

// setUp is a request of a page that sets up a method, by a sign-in that may.
type setUp struct {
	standing *Standing
	self     string       // the page, with the step-up that led to it
	next     string       // where the page leads afterwards
	client   authn.Client // of that step-up: browsers apply form-action to every redirect that follows a form
}

// readSetUp reads what the pages that set up a method share, and with reads what a page needs of the same snapshot.
func (s *Service) readSetUp(q *webflow.Request, path string, reads ...func(tx storage.Tx) error) (x setUp, err error) {
	now := s.deps.Now()
	x.self, x.next = withFlow(path, q.Request)
	x.standing, err = s.needSetUp(q, x.self, append(reads, func(tx storage.Tx) (err error) {
		x.client, err = s.readClient(tx, q, flowOf(q.Request), now)
		return err
	})...)
	return x, err
}

// readSetUpOnce is readSetUp for a method that a person sets up once. A page of a method that is switched off is not
// found; a page of a method that the person has leads on.
func (s *Service) readSetUpOnce(q *webflow.Request, m *Method, reads ...func(tx storage.Tx) error) (setUp, error) {
	x, err := s.readSetUp(q, m.setUp, reads...)
	switch {
	case err != nil:
	case m.needs != nil && !m.needs(s), m.Level(x.standing.Units) == 0:
		err = webflow.NotFound()
	case Pick(x.standing.Has, m.Name) != nil:
		err = redirectInstead(q, x.next)
	}
	return x, err
}

// readClient returns where the application that a flow leads to sends browsers. A flow that has expired, or belongs to
// another browser, leads to no application: the page is shown all the same, and the redirect after it says what is
// wrong.
func (s *Service) readClient(tx storage.Tx, q *webflow.Request, flow string, now time.Time) (authn.Client, error) {
	_, rec, err := s.deps.Front.SignInIn(tx, q, flow, now)
	return authn.Client{Targets: rec.Demand.Client.Targets}, err
}
