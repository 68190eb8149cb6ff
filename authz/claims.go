package authz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/ida"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
)

const (
	maxClaims      = 8 << 10 // bytes of the claims parameter; strangers can have one stored, so it is bounded
	maxClaimsNamed = 64      // claims in it
)

// wantedClaim is the entry of one claim in the parameter; nil: just that it is wanted.
type wantedClaim struct {
	Essential bool  `json:"essential"`
	Value     any   `json:"value"`
	Values    []any `json:"values"`
}

// texts returns the requested values of the claim that are text.
func (c *wantedClaim) texts() (out []string) {
	if c == nil {
		return nil
	}
	for _, v := range append([]any{c.Value}, c.Values...) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// claimsParameter is the JSON of the parameter. Unknown members are ignored (OpenID Connect Core 5.5).
type claimsParameter struct {
	Userinfo, IDToken map[string]*wantedClaim
	// VerifiedUserinfo and VerifiedIDToken are the members verified_claims. nil: it is missing.
	VerifiedUserinfo, VerifiedIDToken json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler. verified_claims is an object of another kind, or an array.
func (p *claimsParameter) UnmarshalJSON(raw []byte) error {
	var of struct {
		Userinfo map[string]json.RawMessage `json:"userinfo"`
		IDToken  map[string]json.RawMessage `json:"id_token"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return err
	}
	var err error
	if p.Userinfo, p.VerifiedUserinfo, err = wantedOf(of.Userinfo); err == nil {
		p.IDToken, p.VerifiedIDToken, err = wantedOf(of.IDToken)
	}
	return err
}

func wantedOf(of map[string]json.RawMessage) (out map[string]*wantedClaim, checked json.RawMessage, err error) {
	out = map[string]*wantedClaim{}
	for name, raw := range of {
		if name == ida.Claim {
			checked = raw
			continue
		}
		var c *wantedClaim
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, nil, err
		}
		out[name] = c
	}
	return out, checked, nil
}

func parseClaims(raw string) (claimsParameter, error) {
	var p claimsParameter
	if len(raw) > maxClaims {
		return p, errors.New("too long")
	}
	if b := bytes.TrimLeft([]byte(raw), " \t\r\n"); len(b) == 0 || b[0] != '{' {
		return p, errors.New("not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(raw)))
	if err := dec.Decode(&p); err != nil {
		return p, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("more than one value")
	}
	if len(p.Userinfo)+len(p.IDToken) > maxClaimsNamed {
		return p, errors.New("too many claims")
	}
	return p, nil
}

// request keeps the claims that one of the client's scopes could give, so the parameter opens nothing that the operator
// has not allowed.
func (p claimsParameter) request(c *client.Client) token.ClaimsRequest {
	known := func(of map[string]*wantedClaim) []string { return c.AllowedClaims(slices.Sorted(maps.Keys(of))) }
	return token.ClaimsRequest{
		Userinfo: known(p.Userinfo), IDToken: known(p.IDToken), VerifiedUserinfo: verifiedOf(c, p.VerifiedUserinfo),
		VerifiedIDToken: verifiedOf(c, p.VerifiedIDToken),
	}
}

// verifiedOf returns what is asked for with verified_claims, or "" if one of the client's scopes gives none of it.
func verifiedOf(c *client.Client, raw json.RawMessage) string {
	r, err := ida.Parse(raw)
	if err != nil || len(c.AllowedClaims(r.Names())) == 0 {
		return "" // it was checked before, if it is offered
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return ""
	}
	return out.String()
}

// checkVerified reports whether verified claims are asked for, and refuses a malformed request. While they are not
// offered, verified_claims is a claim that no one knows.
func (s *Server) checkVerified(ctx context.Context, p claimsParameter) (asked bool, err error) {
	if p.VerifiedUserinfo == nil && p.VerifiedIDToken == nil {
		return false, nil
	}
	if on, err := s.tokens.OffersVerified(ctx); err != nil || !on {
		return false, err
	}
	for _, raw := range []json.RawMessage{p.VerifiedUserinfo, p.VerifiedIDToken} {
		if raw == nil {
			continue
		}
		if _, err := ida.Parse(raw); err != nil {
			return false, oauth.InvalidRequest(err, "verified_claims is not as OpenID Connect for Identity Assurance has it")
		}
	}
	return true, nil
}

// checkClaims reads the claims parameter. (OpenID Connect Core 5.5)
func (s *Server) checkClaims(ctx context.Context, a *authorizeRequest) error {
	raw := a.form.Get("claims")
	if raw == "" || !slices.Contains(a.rec.Scope, client.ScopeOpenID) { // without openid it belongs to another protocol
		return nil
	}
	p, err := parseClaims(raw)
	if err != nil {
		return oauth.InvalidRequest(err, "claims is not the JSON object of OpenID Connect Core 5.5")
	}
	if a.rec.Verified, err = s.checkVerified(ctx, p); err != nil {
		return err
	}
	a.rec.Claims = raw
	named := (&pendingRequest{
		client: a.client,
		rec:    a.rec,
	}).agreed() // a claim that is asked for by itself takes what the scope takes that gives it
	a.rec.Level, a.rec.Assurance = max(a.rec.Level, s.clients.ScopeLevel(named)), max(a.rec.Assurance, s.clients.ScopeAssurance(named))
	for _, of := range []map[string]*wantedClaim{p.IDToken, p.Userinfo} {
		// OpenID Connect Core 5.5.1: a sub with a value is demanded, as id_token_hint demands it.
		for _, subject := range of["sub"].texts() {
			if err := a.rec.hint(a.client.Sector(), subject); err != nil {
				return err
			}
		}
	}
	return a.demandACR(p.IDToken["acr"])
}

// demandACR demands one of the values when the claim is essential (OpenID Connect Core 5.5.1.1), and treats them like
// acr_values otherwise.
func (a *authorizeRequest) demandACR(wanted *wantedClaim) error {
	values := wanted.texts()
	lowest := 0
	for _, value := range values {
		if level := token.ACRLevel(value); level > 0 && (lowest == 0 || level < lowest) {
			lowest = level
		}
	}
	if lowest == 0 && len(values) > 0 && wanted.Essential {
		return &oauth.Error{
			Status: http.StatusBadRequest, Code: "unmet_authentication_requirements",
			Description: "none of the acr values is known",
		}
	}
	a.rec.Level = max(a.rec.Level, lowest)
	return nil
}

// claims returns the claims that the request names in addition to its scopes.
func (p *pendingRequest) claims() token.ClaimsRequest {
	if p.rec.Claims == "" {
		return token.ClaimsRequest{}
	}
	parsed, err := parseClaims(p.rec.Claims)
	if err != nil {
		return token.ClaimsRequest{} // it was checked before it was stored
	}
	if !p.rec.Verified {
		parsed.VerifiedUserinfo, parsed.VerifiedIDToken = nil, nil
	}
	return parsed.request(p.client)
}

// agreed returns the scopes that the consent page names: those of the request and those whose claims it names one by
// one.
func (p *pendingRequest) agreed() []string {
	scope, claims := slices.Clone(p.rec.Scope), p.claims()
	for _, raw := range []string{claims.VerifiedUserinfo, claims.VerifiedIDToken} {
		if r, err := ida.Parse(json.RawMessage(raw)); err == nil {
			claims.Userinfo = append(claims.Userinfo, p.client.AllowedClaims(r.Names())...)
			if !slices.Contains(scope, ida.Claim) {
				scope = append(scope, ida.Claim)
			}
		}
	}
	for _, name := range slices.Concat(claims.Userinfo, claims.IDToken) {
		if of := client.ScopeOfClaim(name); !slices.Contains(scope, of) {
			scope = append(scope, of)
		}
	}
	return scope
}
