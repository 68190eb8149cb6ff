package oauth2

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// codeLife is the time that a code is remembered, so it is used once. Codes live for minutes. (RFC 6749 4.1.2)
const codeLife = time.Hour

// redeem exchanges a code for an access token, and says when that ends. (RFC 6749 4.1.3)
func (p *Provider) redeem(ctx context.Context, f *flow, code string) (token string, until time.Time, err error) {
	if err := p.env.Once(ctx, "code "+code, p.env.Now().Add(codeLife)); err != nil {
		if errors.Is(err, idp.ErrReplayed) {
			return "", until, &idp.Invalid{Reason: "the code was used before"}
		}
		return "", until, err
	}
	a, err := p.askToken(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect},
		"code_verifier": {f.Verifier},
	})
	if err != nil {
		return "", until, fmt.Errorf("token endpoint: %w", err)
	}
	doc, err := providerhttp.ReadObject(a.Body)
	if err != nil {
		return "", until, fmt.Errorf("token endpoint: status %d: %w", a.Status, err)
	}
	if doc["error"] != nil || a.Status != http.StatusOK { // GitHub answers errors with 200
		return "", until, tokenError(a.Status, doc)
	}
	if token, err = doc.Text("access_token"); err != nil {
		return "", until, fmt.Errorf("token endpoint: %w", err)
	}
	kind, err := doc.Text("token_type")
	if err != nil || token == "" || len(token) > maxToken || !(strings.EqualFold(kind, "Bearer") || kind == "" && p.cfg.Preset != "") {
		return "", until, errors.New("token endpoint: it gave no bearer access token")
	}
	if err := providerhttp.CheckToken(token); err != nil {
		return "", until, fmt.Errorf("token endpoint: %w", err)
	}
	return token, doc.Until(p.env.Now()), nil
}

// askToken sends a form to the token endpoint, with our credentials.
func (p *Provider) askToken(ctx context.Context, form url.Values) (*providerhttp.Answer, error) {
	id, pass := p.cfg.ClientID, p.cfg.ClientSecret.Reveal()
	if p.cfg.AuthMethod == AuthPost {
		form.Set("client_id", id)
		form.Set("client_secret", pass)
		id, pass = "", ""
	}
	req, err := providerhttp.Form(p.cfg.TokenURL, form, id, pass)
	if err != nil {
		return nil, err
	}
	return p.calls.Ask(ctx, req, "application/json", "text/javascript") // Facebook's old media type
}

// checkClient redeems a code that no one has issued. (RFC 6749 5.2)
func (p *Provider) checkClient(ctx context.Context, steps *idp.Steps) {
	code, err := secret.ID(p.env.Random, 32)
	if err != nil {
		steps.Fail(providerhttp.StepClient, err, "")
		return
	}
	a, err := p.askToken(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.redirect()},
		"code_verifier": {code + code},
	})
	if err != nil {
		steps.Fail(providerhttp.StepClient, fmt.Errorf("token endpoint: %w", err), "")
		return
	}
	steps.Connection(a.TLS, a.Header, p.env.Now())
	failure := ""
	if doc, err := providerhttp.ReadObject(a.Body); err == nil {
		failure, _ = doc.Text("error") // Facebook writes an object
	}
	if failure == "incorrect_client_credentials" { // GitHub's, with status 200
		failure = "invalid_client"
	}
	providerhttp.CheckClient(steps, a.Status, failure, "bad_verification_code")
}

// tokenError says why there is no token, without text of the provider.
func tokenError(status int, doc providerhttp.Object) error {
	code, err := doc.Text("error")
	switch {
	case err != nil: // Facebook writes an object
		return &idp.Invalid{Reason: "the provider does not take the code"}
	case code == "invalid_grant", code == "bad_verification_code": // the latter is GitHub's
		return &idp.Invalid{Reason: "the provider does not know the code"}
	case !slices.Contains([]string{
		"invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
		"incorrect_client_credentials", "redirect_uri_mismatch",
	}, code):
		code = "an error"
	}
	return fmt.Errorf("token endpoint: status %d: it answers %s", status, code)
}

// profile reads what stands at an address. Without a token it tells only the status.
func (p *Provider) profile(ctx context.Context, address, token string) (providerhttp.Object, int, error) {
	raw, status, err := p.fetch(ctx, address, token)
	if err != nil {
		return nil, status, err
	}
	o, err := providerhttp.ReadObject(raw)
	return o, status, err
}

func (p *Provider) fetch(ctx context.Context, address, token string) (raw []byte, status int, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, 0, errors.New("not an address")
	}
	if p.cfg.Preset == Facebook && token != "" { // a token that was stolen opens nothing without the secret
		mac := hmac.New(sha256.New, []byte(p.cfg.ClientSecret.Reveal()))
		mac.Write([]byte(token)) //nolint:errcheck // never fails
		v := u.Query()
		v.Set("appsecret_proof", hex.EncodeToString(mac.Sum(nil)))
		u.RawQuery = v.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, 0, errors.New("not an address")
	}
	req.Header.Set("User-Agent", "Gatehouse") // GitHub answers no one without a name
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := p.calls.Ask(ctx, req, "application/json", "application/vnd.github+json", "text/javascript")
	if err != nil {
		return nil, 0, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Status, fmt.Errorf("status %d", a.Status)
	}
	return a.Body, a.Status, nil
}

// githubEmail returns the primary address of an account at GitHub, and whether GitHub has verified it.
func (p *Provider) githubEmail(ctx context.Context, token string) (string, bool, error) {
	raw, status, err := p.fetch(ctx, p.cfg.EmailsURL, token)
	if status == http.StatusForbidden || status == http.StatusNotFound {
		return "", false, nil // the person or an organisation has not allowed the scope
	}
	if err != nil {
		return "", false, fmt.Errorf("e-mail addresses: %w", err)
	}
	var list []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", false, errors.New("e-mail addresses: it is not a list of them")
	}
	for _, one := range list {
		if one.Primary {
			return one.Email, one.Verified, nil
		}
	}
	return "", false, nil
}
