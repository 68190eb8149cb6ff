package protect

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// A token that is bound to a key opens a site to those who prove to have the key, with each request.
// (docs/decisions/token-endpoint.md#dpop)

// proved says that the proof of a request was spent for a token, so a further protect on its way asks for no other. It
// prints as "[redacted]".
type proved struct{ token, jkt string }

const provedVar = "gatehouse.proved"

func (proved) String() string { return "[redacted]" }

// checkProof refuses a token whose sender does not prove to have what it is bound to. What is not active has not to be
// proved.
func (p *Protect) checkProof(g *requestState, rec *credentials, in Entrance, c credential, who *token.Introspection) *refusal {
	if c.site != nil || who == nil || !who.Active {
		return nil
	}
	bound := who.Confirmation
	if bound.X5T != "" && (in.Thumbprint == nil || in.Thumbprint(g.r) != bound.X5T) { // RFC 8705 3
		return unproved(refusals.ClientCertificate, "invalid_token",
			"the access token is bound to another certificate than that of the connection")
	}
	key := proved{c.token, bound.JKT}
	if done, _ := caddyhttp.GetVar(g.r.Context(), provedVar).(proved); bound.JKT != "" && done == key {
		return nil
	}
	if in.Proofs == nil {
		if bound.IsZero() {
			return nil
		}
		return unproved(refusals.KeyUnproved, "invalid_token", "the access token is bound to a key")
	}
	if bound.JKT == "" && !g.byProof { // what Admit says as well; most tokens are like this, and need no address made
		return nil
	}
	proof, err := in.Proofs.Admit(g.r.Context(), http.Header{dpop.Header: rec.proofs},
		dpop.Request{Method: g.r.Method, URL: p.publicURL(g.r), Token: c.token}, g.byProof, bound.JKT)
	in.Proofs.Offer(g.Header(), proof, err)
	if err != nil {
		e := oauth.AsError(err)
		if e.Status != http.StatusUnauthorized {
			return cannotTell(err)
		}
		return unproved(refusals.ReasonOf(e, refusals.ProofInvalid), e.Code, e.Description)
	}
	if bound.JKT != "" {
		caddyhttp.SetVar(g.r.Context(), provedVar, key)
	}
	return nil
}

func unproved(reason refusals.Reason, code, text string) *refusal {
	return &refusal{
		reason: reason, status: http.StatusUnauthorized, code: code, text: text,
		challenge: errorParams(code, text), page: "error.denied",
	}
}

// publicURL is the address of a request as its client knows it, before rewrites and behind proxies. cleanse has deleted
// what others than trusted proxies say of it.
func (p *Protect) publicURL(r *http.Request) string {
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if v := r.Header.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
		scheme = v
	}
	if v := r.Header["X-Forwarded-Host"]; len(v) == 1 && v[0] != "" && !strings.Contains(v[0], ",") {
		host = v[0]
	}
	path, _, _ := strings.Cut(originalTarget(r), "?")
	if !strings.HasPrefix(path, "/") {
		path = original(r).EscapedPath()
	}
	return scheme + "://" + host + path
}

// askProof adds to a refusal of a credential that a token can come with a proof. A token by the scheme DPoP is answered
// by that scheme. Clients of MCP look for Bearer first. (RFC 9449 7.1; docs/decisions/token-endpoint.md#dpop)
func (p *Protect) askProof(g *requestState, f *refusal) {
	h := g.Header()
	switch {
	case g.byProof && p.MCP == nil:
		h.Set("WWW-Authenticate", dpop.Challenge(f.challenge))
	case g.byProof:
		h.Add("WWW-Authenticate", dpop.Challenge(f.challenge))
	case f.status == http.StatusUnauthorized:
		h.Add("WWW-Authenticate", dpop.Challenge(""))
	}
}
