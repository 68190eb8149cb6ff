package protect

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
)

// A site can name policies that are not in the Caddyfile but in the storage, where the configuration API changes them
// while requests come in. Each request is decided by the policies of one moment.
// (docs/decisions/operation.md#policies-of-the-configuration-api)

// ruling are the rules of a site at one moment, in addition to its requirements for every request.
type ruling struct {
	rules  *policy.Policy
	public sitepath.Public
	asks   policy.Parts // of a request that decide. One that could be read otherwise there is refused

	book    *policy.Book // of the policies that are not in the Caddyfile
	missing string       // a policy that the site names and that is nowhere, so no one passes
}

// library has the policies that are not in the Caddyfile.
type library interface {
	// Current returns those of this moment and what that rests on; while nothing changes, the same book.
	Current(ctx context.Context) (*policy.Book, recheck.Basis, error)
}

// binder makes the rulings of a site that names policies which are not in the Caddyfile.
type binder struct {
	own   ruling // of the site itself: its paths, and whether its matcher asks for the path
	parts []part // in their order
	bare  bool   // only what is open counts, and not the rules
	now   atomic.Pointer[ruling]
}

// part is a policy that a site names, or its own rules.
type part struct {
	name  string
	rules *policy.Policy // nil: it is not in the Caddyfile
}

// usePolicy is App.UsePolicy.
type usePolicy = func(name, site, place string) *policy.Policy

// gather returns the parts of a site.
func (p *Protect) gather(names []string, own *policy.Policy, option string, use usePolicy) (out []part) {
	for _, name := range names {
		out = append(out, part{name, use(name, p.user(), p.Places.Of("protect: "+option))})
	}
	return append(out, part{"", own})
}

// user names the site for operators.
func (p *Protect) user() string {
	place := p.Place()
	if known := slices.Concat(p.Origins, p.Sites); len(known) > 0 {
		if place == "" {
			return known[0]
		}
		return known[0] + " (" + place + ")"
	}
	return place
}

// label returns the name of the site in counts and findings: a host, or its place in the Caddyfile.
func (p *Protect) label() string { return "site " + cmp.Or(p.name, p.Place(), "without a name") }

// isLater reports whether the policy of a part is not in the Caddyfile.
func (p part) isLater() bool { return p.rules == nil }

// laterPolicies are the names of the policies of the site that are not in the Caddyfile.
func (p *Protect) laterPolicies() (names []string) {
	if p.binder == nil {
		return nil
	}
	for _, one := range p.binder.parts {
		if one.isLater() {
			names = append(names, one.name)
		}
	}
	return names
}

// fixedOf joins the parts that are in the Caddyfile.
func fixedOf(parts []part) *policy.Policy {
	var all []*policy.Policy
	for _, one := range parts {
		if !one.isLater() {
			all = append(all, one.rules)
		}
	}
	return policy.Join(all...)
}

// at returns the ruling with the policies of a book.
func (b *binder) at(book *policy.Book) *ruling {
	if now := b.now.Load(); now != nil && now.book == book {
		return now
	}
	out := &ruling{book: book, asks: b.own.asks, public: slices.Clone(b.own.public)}
	var all []*policy.Policy
	for _, one := range b.parts {
		if one.isLater() {
			if one.rules = book.Named(one.name); one.rules == nil {
				out.missing = cmp.Or(out.missing, one.name)
				continue
			}
			out.public = append(out.public, one.rules.Public...)
		}
		all = append(all, one.rules)
	}
	out.rules = policy.Join(all...)
	if out.asks = out.asks.Or(out.rules.Parts()); b.bare {
		out.rules = new(policy.Policy)
	}
	b.now.Store(out)
	return out
}

// bind finds what decides about a request.
func (p *Protect) bind(g *requestState) error {
	if g.ruling = p.fixed; p.binder == nil {
		return nil
	}
	in, err := g.open()
	if err != nil {
		return err
	}
	var book *policy.Book
	if in.Policies != nil {
		if book, _, err = in.Policies.Current(g.r.Context()); err != nil {
			return err
		}
	}
	g.ruling = p.binder.at(book)
	return nil
}

// missing is the refusal of a site whose rules are not known.
func missing(name string) *refusal {
	f := ruleRefusal(demand{})
	f.reason, f.text = refusals.PolicyMissing, "the rules of this site are missing"
	f.challenge = errorParams(f.code, f.text)
	f.cause = fmt.Errorf("the site names the policy %s, which is neither in the Caddyfile nor in the configuration API", name)
	return f
}

// snapshot is a request as it came, for rules that are asked again while it lasts: the handlers behind change it.
type snapshot struct {
	r    *http.Request
	vars map[string]any
}

// snapshotVars are Caddy's variables that matchers look at.
var snapshotVars = []string{caddyhttp.ClientIPVarKey, caddyhttp.TrustedProxyVarKey}

func takeSnapshot(r *http.Request) *snapshot {
	s := &snapshot{r.Clone(r.Context()), map[string]any{}}
	for _, name := range snapshotVars {
		s.vars[name] = caddyhttp.GetVar(r.Context(), name)
	}
	return s
}

// rulesBy returns the rules that concern a request which lasts, by the policies of a moment. false: it may not go on.
func (g *requestState) rulesBy(book *policy.Book) (_ policy.Selection, ok bool) {
	if g.came == nil {
		return g.rules, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.protect.binder.at(book)
	switch {
	case now == g.ruling:
		return g.rules, true
	case now.missing != "", readable(g.came.r, now.asks) != nil:
		return g.rules, false
	}
	chosen, err := now.rules.Select(g.came.request(), func() string { return g.rules.Agent() })
	if err != nil {
		return g.rules, false
	}
	g.ruling, g.rules = now, chosen
	return chosen, true
}

// request returns the request in a form that matchers can look at. Nothing of it is shared with the handlers that serve
// the request meanwhile.
func (s *snapshot) request() *http.Request {
	srv, ok := s.r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		srv = new(caddyhttp.Server)
	}
	r := caddyhttp.PrepareRequest(s.r.Clone(s.r.Context()), caddy.NewReplacer(), discard{}, srv)
	for name, value := range s.vars {
		caddyhttp.SetVar(r.Context(), name, value)
	}
	return r
}

// discard is an answer that no one reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
