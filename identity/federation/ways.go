package federation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Ways are the ways to sign in that meet a demand.
type Ways struct {
	Password  bool
	Passkey   bool
	Providers []*Member // that the browser can be sent to
	// Straight is the provider that the browser is sent to without a choice. nil: the person chooses.
	Straight *Member
	// Phone says that a phone can sign the person in by the service's own code, and PhoneShown that the page offers it.
	Phone, PhoneShown bool

	asked bool // the person has to choose, or to sign in again
}

// Ways returns how a demand can be met.
func (g *Registry) Ways(d authn.Demand) *Ways {
	ids := d.Providers
	switch {
	case d.Provider != "":
		ids = []string{d.Provider}
	case len(ids) == 0:
		ids = append([]string{session.LocalProvider}, g.order...)
	}
	out := &Ways{asked: d.SelectAccount || isForced(d)}
	for _, id := range ids {
		if id == session.LocalProvider {
			out.Password = d.Level <= max(session.PasswordLevel, g.byPassword) && !g.NoPassword
			out.Passkey = d.Level <= session.PasskeyLevel && !g.NoPassword && g.passkeys
			out.Phone, out.PhoneShown = g.byPhone(d, "")
		} else if p := g.Get(id); p != nil && p.asks() && out.Find(id) == nil {
			if is, _ := g.byPhone(d, id); p.Phone && !is {
				continue
			}
			out.Providers = append(out.Providers, p)
		}
	}
	// The first of a client's providers is its default.
	if first := out.Find(ids[0]); first != nil && !(d.SelectAccount && len(ids) > 1) {
		out.Straight = first
	} else if out.Alone() {
		out.Straight = out.Providers[0]
	}
	return out
}

// byPhone reports whether a phone can sign a person in for a demand, and whether the sign-in page offers it. A page
// without navigation is on the phone itself. (docs/decisions/sign-in.md#signing-in-by-a-phone)
func (g *Registry) byPhone(d authn.Demand, method string) (possible, shown bool) {
	if d.Passive || d.View == "mobile" {
		return false, false
	}
	level, shown := g.phone(method)
	possible = level > 0 && d.Level <= max(level, g.byPassword)
	return possible, possible && shown
}

// WithoutPhones takes out the ways of people who have an account already.
func (w *Ways) WithoutPhones() *Ways {
	out := *w
	out.Providers = slices.DeleteFunc(slices.Clone(w.Providers), func(p *Member) bool { return p.Phone })
	out.Phone, out.PhoneShown = false, false
	return &out
}

// At takes out the providers where no one signs in from an address.
func (w *Ways) At(address string) *Ways {
	addr, _ := netip.ParseAddr(address)
	out := *w
	out.Providers = slices.DeleteFunc(slices.Clone(w.Providers), func(p *Member) bool { return !p.Serves(addr) })
	if out.Straight != nil && !out.Straight.Serves(addr) && !out.None() {
		out.Straight = nil
	}
	if out.Straight == nil && !out.asked {
		out.Straight = out.auto(addr)
	}
	return &out
}

// None reports whether there is no way to sign in.
func (w *Ways) None() bool {
	return !w.Password && !w.Passkey && !w.PhoneShown && len(w.Providers) == 0
}

// Alone reports whether there is nothing to choose.
func (w *Ways) Alone() bool {
	return !w.Password && !w.Passkey && !w.PhoneShown && len(w.Providers) == 1
}

// PhoneAlone reports whether no one but a phone signs the person in.
func (w *Ways) PhoneAlone() bool {
	return w.PhoneShown && !w.Password && !w.Passkey && len(w.Providers) == 0
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

// ByUsername returns the provider that a username leads to by its e-mail domain, or nil.
func (w *Ways) ByUsername(username string) *Member {
	_, domain, ok := strings.Cut(username, "@")
	if domain = strings.ToLower(domain); !ok || domain == "" || strings.Contains(domain, "@") {
		return nil
	}
	for _, p := range w.Providers {
		if slices.Contains(p.Domains, domain) {
			return p
		}
	}
	return nil
}

// HasDomains reports whether a username can lead to a provider.
func (w *Ways) HasDomains() bool {
	return slices.ContainsFunc(w.Providers, func(p *Member) bool { return len(p.Domains) > 0 })
}

// OfService widens a demand for the service itself: the providers that it manages are its own.
func (g *Registry) OfService(d authn.Demand) authn.Demand {
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
