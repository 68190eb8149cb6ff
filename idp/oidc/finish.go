package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

// FlowOf implements idp.Redirector: state.
func (p *Provider) FlowOf(r *http.Request) (string, error) {
	v, err := p.parametersOf(r)
	if err != nil {
		return "", err
	}
	return providerhttp.State(v)
}

// parametersOf returns the parameters of an authorization response: from the query, or from the body if form_post was
// requested. It refuses parameters in both.
func (p *Provider) parametersOf(r *http.Request) (url.Values, error) {
	want := http.MethodGet
	if p.cfg.ResponseMode == "form_post" {
		want = http.MethodPost
	}
	if r.Method != want && (r.Method != http.MethodGet || p.cfg.ResponseMode == "query") {
		return nil, &idp.Invalid{Reason: "the answer came by another method than was asked for"}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the answer cannot be read"}
	}
	if r.Method == http.MethodGet {
		return query, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, &idp.Invalid{Reason: "the answer cannot be read"}
	}
	if len(query) > 0 {
		return nil, &idp.Invalid{Reason: "the answer is in two places"}
	}
	return r.PostForm, nil
}

// response is an authorization response. (RFC 6749 4.1.2, RFC 9207)
type response struct{ code, state, iss, failure, user string }

func (p *Provider) readResponse(r *http.Request) (a response, err error) {
	v, err := p.parametersOf(r)
	if err != nil {
		return a, err
	}
	read := map[string]*string{"code": &a.code, "state": &a.state, "iss": &a.iss, "error": &a.failure}
	if p.cfg.Preset == Apple && r.Method == http.MethodPost && slices.Contains(p.cfg.Scopes, claimName) {
		read["user"] = &a.user
	}
	for name, into := range read {
		if *into, err = providerhttp.One(v, name); err != nil {
			return a, err
		}
	}
	// Tokens in the response were not requested: they would be another way in. (RFC 9700 2.1.2)
	if v.Has("id_token") || v.Has("access_token") {
		return a, &idp.Invalid{Reason: "the answer carries tokens"}
	}
	if (a.code == "") == (a.failure == "") || len(a.code) > providerhttp.MaxCode {
		return a, &idp.Invalid{Reason: "the answer is neither a code nor an error"}
	}
	return a, nil
}

// Finish implements idp.Redirector.
func (p *Provider) Finish(ctx context.Context, state []byte, r *http.Request) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if state == nil {
		return nil, &idp.Invalid{Reason: "an answer without a request"}
	}
	var f flow
	if err := json.Unmarshal(state, &f); err != nil {
		return nil, &idp.Invalid{Reason: "the flow cannot be read"}
	}
	if f.Provider != p.env.ID || f.Issuer != p.cfg.Issuer || f.Client != p.cfg.ClientID {
		return nil, &idp.Invalid{Reason: "the flow belongs to another provider"}
	}
	a, err := p.readResponse(r)
	if err != nil {
		return nil, err
	}
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	// RFC 9207 2.4: checked before anything else of the response is used, including errors. If the provider does not
	// announce iss, its own redirect URI tells providers apart.
	if !p.cfg.isIssuer(a.iss) && (a.iss != "" || m.namesItself) {
		return nil, &idp.Invalid{Reason: "the answer is not from the provider that was asked (iss)"}
	}
	if a.failure != "" {
		return nil, rejectionOf(a.failure)
	}
	given, err := p.redeem(ctx, m, url.Values{
		"grant_type": {"authorization_code"}, "code": {a.code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier},
	})
	if errors.Is(err, errGrant) {
		return nil, &idp.Invalid{Reason: "the provider does not know the code", Cause: err}
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint: %w", err)
	}
	if given.id == "" { // OpenID Connect Core 3.1.3.3
		return nil, &idp.Invalid{Reason: "the token response has no ID token"}
	}
	id, err := p.verifyIDToken(ctx, m, given.id, given.access)
	if err != nil {
		return nil, err
	}
	if got, err := id.claims.Text("nonce"); err != nil || !same(got, f.Nonce) { // OpenID Connect Core 3.1.3.7, 11
		return nil, &idp.Invalid{Reason: "the ID token is not for this sign-in (nonce)"}
	}
	if err := errors.Join(f.judgeAge(id), p.cfg.judgePerson(id.claims)); err != nil {
		return nil, err
	}
	info, err := p.userInfo(ctx, m, given.access, id.subject)
	if err != nil {
		return nil, err
	}
	if p.cfg.Preset == Apple {
		info = appleName(a.user) // only now, with a code and an ID token of this flow
		maps.DeleteFunc(info, func(name string, _ any) bool { return id.claims[name] != nil })
	}
	h := heldData{Refresh: given.refresh, Nonce: f.Nonce}
	if given.refresh == "" && m.UserInfoURL != "" {
		h.Access, h.AccessUntil = given.access, given.until
	}
	return p.identity(id, info, h)
}

// judgeAge compares the age of the sign-in with the request, because a person can remove prompt and max_age from the
// address. (OpenID Connect Core 3.1.2.1 makes auth_time required then.) The age counts from the start of the flow.
func (f flow) judgeAge(id *idToken) error {
	if f.MaxAge == nil {
		return nil
	}
	if id.authTime.IsZero() {
		return &idp.Rejection{Reason: "the provider does not say when the person signed in (auth_time)", Passive: f.Passive}
	}
	if id.authTime.Before(f.Began.Add(-time.Duration(*f.MaxAge)*time.Second - skew)) {
		return &idp.Rejection{Reason: "the person signed in there too long ago", Passive: f.Passive}
	}
	return nil
}

// rejectionOf returns the meaning of an error response. (RFC 6749 4.1.2.1, OpenID Connect Core 3.1.2.6)
func rejectionOf(code string) error {
	known := []string{
		"interaction_required", "login_required", "account_selection_required", "consent_required", "invalid_request",
		"unauthorized_client", "unsupported_response_type", "invalid_scope", "unmet_authentication_requirements",
	}
	switch {
	case code == "server_error" || code == "temporarily_unavailable":
		return fmt.Errorf("the provider answers %s", code)
	case providerhttp.Stopped(code):
		return &idp.Rejection{Reason: "the provider answers " + code, Cancelled: true}
	case !slices.Contains(known, code): // it came through the browser: unknown text is not repeated, not even in a log
		return &idp.Rejection{Reason: "the provider answers an error"}
	}
	return &idp.Rejection{Reason: "the provider answers " + code, Passive: slices.Contains(known[:4], code)}
}
