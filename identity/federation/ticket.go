package federation

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Serves reports whether people sign in at the provider from an address.
func (m *Member) Serves(addr netip.Addr) bool {
	local, ok := m.Source.(interface{ Serves(addr netip.Addr) bool })
	return !ok || local.Serves(addr)
}

// isAuto reports whether browsers are sent to the provider without a choice.
func (m *Member) isAuto() bool { return m.challenger != nil && m.challenger.Auto() }

// challenge asks a browser that brings no proof for one. asked: it has been answered. The page that comes with the
// question is what a browser shows that has none: it leads to the other ways to sign in, and not back here.
func (s *Service) challenge(q *webflow.Request, p *Member, name string) (asked bool, err error) {
	if p.challenger == nil {
		return false, nil
	}
	a, now := &Answer{exchange: exchange{Provider: p}, Name: name}, s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error { return s.lookAt(tx, q, a, now) })
	switch {
	case errors.Is(err, errOtherBrowser):
		return true, forbidden("error.forbidden")
	case errors.Is(err, idp.ErrNoFlow):
		return true, expired()
	case err != nil:
		return true, err
	}
	known, err := s.Registry(q.Context(), q.Settings)
	if err != nil {
		return true, err
	}
	ways := known.Ways(a.Flow.Demand)
	if err := s.checkNetwork(q, p, ways); err != nil {
		return true, err
	}
	if !p.challenger.Challenge(q.W, q.Request) {
		return false, nil
	}
	data := web.Trouble{Key: "trouble.ticket", Name: p.Name, Again: ProviderURL(a.SignIn, p.ID), Cancel: web.LocalPath(a.Flow.Demand.Cancel)}
	if !ways.Alone() {
		data.Other, data.Next = a.chooseURL(), a.chooseURL()
	}
	s.deps.Pages.Render(q.W, q.Request, s.troubleView(q, &a.exchange, http.StatusUnauthorized, data))
	return true, nil
}

// instead leads a browser to the other ways to sign in if it was refused at a provider that no one has to choose.
// False: someone has chosen the provider, or there is no other way.
func (s *Service) instead(q *webflow.Request, x *exchange) (led bool, err error) {
	if x.SignIn == "" || x.Flow.Demand.Passive || !x.Provider.isAuto() {
		return false, nil
	}
	known, err := s.Registry(q.Context(), q.Settings)
	if err != nil || known.Ways(x.Flow.Demand).Alone() {
		return false, err
	}
	return true, q.Redirect(x.chooseURL())
}

// auto returns the first of the providers to which browsers at an address are sent without a choice, or nil.
func (w *Ways) auto(addr netip.Addr) *Member {
	i := slices.IndexFunc(w.Providers, func(p *Member) bool { return p.isAuto() && p.Serves(addr) })
	if i < 0 {
		return nil
	}
	return w.Providers[i]
}
