package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Check implements idp.Checker: metadata, keys, our own key pairs, and our authentication, by an unknown code.
func (p *Provider) Check(ctx context.Context) (steps idp.Steps) {
	m := p.checkMetadata(ctx, &steps)
	if m == nil {
		return steps
	}
	p.checkKeySet(ctx, &steps, m)
	if p.checkOwnKeys(ctx, &steps, m) {
		p.checkClient(ctx, &steps, m)
	}
	steps.OK("redirect URI", "register %s at the provider", p.endpointURL("callback"))
	return steps
}

// checkMetadata fetches the metadata. nil: there are none.
func (p *Provider) checkMetadata(ctx context.Context, steps *idp.Steps) *metadata {
	if !p.cfg.Metadata.IsZero() {
		steps.OK("metadata", "as configured, not fetched")
		return &metadata{Metadata: p.cfg.Metadata, algs: signatures}
	}
	doc, a, err := p.fetch(ctx, p.cfg.DiscoveryURL, "application/json")
	if err != nil {
		fix := ""
		if strings.Contains(err.Error(), "status 404") {
			fix = "look at the issuer: its metadata must be at " + p.cfg.DiscoveryURL
		}
		steps.Fail("metadata", err, fix)
		return nil
	}
	m, err := p.readMetadata(doc)
	if err != nil {
		steps.Fail("metadata", err, "write the issuer exactly as the provider does, and look at "+p.cfg.DiscoveryURL)
		return nil
	}
	steps.OK("metadata", "fetched from %s", p.cfg.DiscoveryURL)
	steps.Connection(a.TLS, a.Header, p.env.Now())
	for _, e := range []struct{ name, at string }{
		{"authorization endpoint", m.AuthorizationURL},
		{"token endpoint", m.TokenURL},
		{"user info", m.UserInfoURL},
	} {
		if e.at != "" {
			steps.OK(e.name, "%s", e.at)
		}
	}
	return m
}

func (p *Provider) checkKeySet(ctx context.Context, steps *idp.Steps, m *metadata) {
	doc, _, err := p.fetch(ctx, m.JWKSURL, "application/json", "application/jwk-set+json")
	if err != nil {
		steps.Fail("keys", err, "")
		return
	}
	keys, err := readKeys(doc)
	if err != nil {
		steps.Fail("keys", err, "the provider must publish an RSA key of 2048 bits or more, or an EC, Ed25519 or ML-DSA key, for signatures")
		return
	}
	var kinds []string
	for _, k := range keys {
		if k.Algorithm != "" && !slices.Contains(kinds, k.Algorithm) {
			kinds = append(kinds, k.Algorithm)
		}
	}
	steps.OK("keys", "%d for signatures %s", len(keys), strings.Join(kinds, " "))
}

// checkOwnKeys opens the key pairs of the configuration. false: we cannot authenticate.
func (p *Provider) checkOwnKeys(ctx context.Context, steps *idp.Steps, m *metadata) bool {
	const name, fix = "key pairs", "add a key pair of this name with its private key"
	if p.cfg.Preset == Apple {
		if _, err := p.secret.get(ctx, p); err != nil {
			steps.Fail(name, err, "add the .p8 file of the key as a key pair of this name")
			return false
		}
		steps.OK(name, "the key %s makes the client secret", p.cfg.KeyID)
		return true
	}
	if p.cfg.AuthMethod == AuthPrivateKey {
		if _, _, err := p.signingKey(ctx, m); err != nil {
			steps.Fail(name, err, fix)
			return false
		}
	}
	if err := p.CheckKeys(ctx); err != nil {
		steps.Fail(name, err, fix)
		return false
	}
	if p.hasKeys() {
		steps.OK(name, "the provider finds the public keys at %s", p.endpointURL("jwks"))
	}
	return true
}

// checkClient redeems a code that no one has issued: a provider that knows us says that the code is unknown. (RFC 6749
// 5.2: the client is authenticated first)
func (p *Provider) checkClient(ctx context.Context, steps *idp.Steps, m *metadata) {
	code, err := secret.ID(p.env.Random, 32)
	if err != nil {
		steps.Fail(providerhttp.StepClient, err, "")
		return
	}
	req, err := p.tokenRequest(ctx, m, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.endpointURL("callback")}, "code_verifier": {code + code},
	})
	if err != nil {
		steps.Fail(providerhttp.StepClient, err, "")
		return
	}
	a, err := p.calls.Ask(ctx, req, "application/json")
	if err != nil {
		steps.Fail(providerhttp.StepClient, fmt.Errorf("token endpoint: %w", err), "")
		return
	}
	doc, err := providerhttp.ReadObject(a.Body)
	failure := ""
	if err == nil {
		failure, err = doc.Text("error")
	}
	if err != nil || a.Status == http.StatusOK {
		steps.Fail(providerhttp.StepClient, errors.New("the token endpoint answers an unknown code with something else than an error"),
			"look at the address of the token endpoint")
		return
	}
	providerhttp.CheckClient(steps, a.Status, failure)
}
