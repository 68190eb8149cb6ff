package routetree

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

// Check returns what is wrong with the sites of a configuration: an issuer that no site serves, and a protect that
// guards nothing. issuerPlace is where the issuer stands. served tells that a handler which serves it is known from
// elsewhere.
func (t *Tree) Check(issuer *url.URL, issuerPlace string, served bool) []diagnostic.Finding {
	w := &walk{issuer: issuer.Hostname(), served: served}
	for _, l := range t.servers {
		w.list(l, at{})
	}
	for _, l := range t.named { // who invokes them, and for which hosts, is not followed
		w.list(l, at{})
	}
	t.whole = w.whole
	if w.served {
		return w.found
	}
	f := diagnostic.Finding{
		Severity: diagnostic.Error, Place: issuerPlace,
		Reason: "issuer: no site serves " + issuer.String(), Fix: "add the site `" + address(issuer) + " { gatehouse }`",
	}
	if len(w.elsewhere) > 0 {
		slices.Sort(w.elsewhere)
		f.Reason += ", the directive gatehouse stands in a site of " + strings.Join(slices.Compact(w.elsewhere), ", ")
		f.Fix += ", or change the issuer"
	}
	return append(w.found, f)
}

// address is the address of the site that serves an issuer.
func address(issuer *url.URL) string {
	if issuer.Scheme == "http" {
		return issuer.String()
	}
	return issuer.Host
}

// walk goes through the routes as a request does.
type walk struct {
	issuer    string
	served    bool
	elsewhere []string // hosts for which the directive gatehouse stands
	found     []diagnostic.Finding
	whole     []string
}

// at is the place of a walk.
type at struct {
	hosts  []string // nil: any
	partly bool     // routes on the way match more than hosts
	ended  string   // the handler that has answered every request before
	// guarded tells that a protect has seen every request before, guardedAt where that stands.
	guarded   bool
	guardedAt string
	early     []*step // the handlers on the way
}

// list goes through a list of routes and returns the handler that has answered every request at its end, or "".
func (w *walk) list(l list, here at) string {
	for i := range l {
		r := &l[i]
		inside := here
		if r.hosts != nil {
			inside.hosts = r.hosts
		}
		inside.partly, inside.early = here.partly || r.partly, slices.Clip(here.early)
		if r.matched {
			inside.early = append(inside.early, &r.matchers)
		}
		for j := range r.steps {
			s := &r.steps[j]
			if inside.guarded {
				w.keeps(s, inside.guardedAt)
			}
			switch {
			case s.kind == protectKind:
				w.protect(s, inside)
				w.early(s, inside.early)
				inside.early = nil
				inside.guarded, inside.guardedAt = true, s.place
			case s.kind == issuerKind:
				w.serve(inside)
			case s.inner != nil:
				if by := w.list(s.inner, inside); by != "" {
					inside.ended = by
				}
			case s.mentions():
				w.served = true
			}
			if s.ends() {
				inside.ended = s.kind
			}
			if s.kind != protectKind && s.inner == nil {
				inside.early = append(inside.early, s)
			}
		}
		here.early = inside.early
		if !r.matched {
			here.ended, here.guarded, here.guardedAt = inside.ended, inside.guarded, inside.guardedAt
			if r.terminal && here.ended == "" {
				here.ended = "the route"
			}
		}
	}
	return here.ended
}

// protect notes a protect that no request reaches.
func (w *walk) protect(s *step, here at) {
	if here.ended != "" {
		w.found = append(w.found, diagnostic.Finding{
			Severity: diagnostic.Error, Place: s.place,
			Reason: "protect: guards nothing: " + here.ended + " stands before it and answers every request", Fix: "write protect first",
		})
	} else if !here.partly {
		w.whole = append(w.whole, s.place)
	}
}

// serve notes that the issuer's handler stands here. What passes a protect has lost the cookies of the issuer, and so
// has the answer.
func (w *walk) serve(here at) {
	if here.guarded && here.ended == "" {
		w.found = append(w.found, diagnostic.Finding{
			Severity: diagnostic.Error, Place: here.guardedAt,
			Reason: "protect: stands before gatehouse and removes its cookies, so no one can sign in",
			Fix:    "write each of the two in a `handle` of its own",
		})
	}
	if here.hosts == nil || slices.ContainsFunc(here.hosts, func(h string) bool { return matchesHost(h, w.issuer) }) {
		w.served = true
		return
	}
	w.elsewhere = append(w.elsewhere, here.hosts...)
}
