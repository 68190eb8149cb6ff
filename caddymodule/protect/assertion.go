package protect

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

// defaultAssertion carries the signed assertion upstream. It is deleted from requests at every site.
const defaultAssertion = "Remote-Assertion"

var checkAssertionAlg = caddyfileutil.OneOf(assertion.Algorithms...)

// asserter signs what an upstream can verify about a request. *assertion.Signer is one.
type asserter interface {
	Sign(about assertion.Statement) (string, error)
}

func (p *Protect) readAssertion(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if p.Assertion != "" {
		return d.Errf("assertion is already set: %s", p.Assertion)
	}
	p.Assertion = defaultAssertion
	transacts := len(args) > 0 && args[0] == wordTransaction
	if transacts {
		p.Assertion, args = transaction.Header, args[1:]
	}
	if last := len(args) - 1; last >= 0 && slices.Contains(assertion.Algorithms, args[last]) {
		p.AssertionAlg, args = args[last], args[:last]
	}
	switch {
	case len(args) == 2:
		return d.Errf("assertion: %q is no algorithm: want one of %s", args[1], strings.Join(assertion.Algorithms, ", "))
	case len(args) > 2:
		return d.Err("assertion: want one header and one algorithm, as in: assertion " + defaultAssertion + " ML-DSA-44")
	case len(args) == 1:
		p.Assertion = args[0]
	}
	if err := caddyfileutil.Check(d, "assertion", p.Assertion, checkIdentityHeader); err != nil {
		return err
	}
	if transacts {
		return p.readTransaction(d)
	}
	return caddyfileutil.NoMore(d, "assertion")
}

// assertable reports whether it is known for which site an assertion is made. A Host header that the client chooses
// would let it have one for another site.
func (p *Protect) assertable() error {
	switch {
	case p.Transaction != nil && p.Transaction.Domain == "":
		return errors.New("assertion txn_token: domain is missing: name the trust domain in which the tokens are valid, such as shop.example.com")
	case p.Assertion == "" && p.AssertionAlg != "":
		return errors.New("assertion_alg: the site has no assertion: add it")
	case p.Assertion == "":
		return nil
	case len(p.Origins) == 0 && len(p.Sites) == 0:
		return errors.New("assertion: the site has no address with a host, and the assertion says for which site it is: " +
			"give the site one, such as https://wiki.example.com")
	case slices.ContainsFunc(p.headers, func(h IdentityHeader) bool { return fieldname.Same(h.Name, p.Assertion) }):
		return fmt.Errorf("assertion: %s is one of headers, too", p.Assertion)
	}
	return nil
}

// assert signs for the upstream that this request has passed, who made it and for which site. (docs/assertion.md)
func (p *Protect) assert(g *requestState, who *token.Introspection) *refusal {
	if p.Assertion == "" {
		return nil
	}
	site := p.siteOf(g.r)
	if site == nil {
		return &refusal{
			reason: refusals.UnknownSite, status: http.StatusMisdirectedRequest, code: "invalid_request",
			text: "the site is not known under this host", page: "error.bad_request",
		}
	}
	if p.Transaction == nil && g.entrance.Assertions == nil {
		return cannotTell(errors.New("nothing here signs assertions"))
	}
	about := assertion.Statement{
		Algorithm: p.AssertionAlg, Audience: site.origin, Subject: who.Subject, Session: who.SessionID, ACR: token.ACR(who.Level),
		Request: assertion.Request{Method: g.r.Method, Host: g.r.Host, Path: cmp.Or(g.r.URL.EscapedPath(), "/")},
	}
	if g.site == nil {
		about.Client = who.ClientID
	}
	if who.Person != nil {
		about.Groups = who.Person.Groups
	}
	if g.webSocket && g.r.Method == http.MethodConnect {
		about.Request.Method = http.MethodGet // RFC 8441 5: so reverse_proxy asks an upstream of HTTP/1
	}
	var text string
	var err error
	if p.Transaction != nil {
		text, err = p.begin(g, who, site.origin, about.Request.Method)
	} else {
		text, err = g.entrance.Assertions.Sign(about)
	}
	if err != nil {
		return cannotTell(fmt.Errorf("assertion: %w", err))
	}
	g.r.Header[p.Assertion] = []string{text}
	if h, ok := caddyhttp.GetVar(g.r.Context(), holderVar).(*holder); ok {
		h.headers = append(slices.Clip(h.headers), IdentityHeader{Name: p.Assertion})
	}
	return nil
}
