package oidc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

const metadataFresh = time.Hour

// signatures are the algorithms that a provider can sign with: shared secrets and none are excluded. (RFC 8725 3.1)
var signatures = append([]jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}, jwa.PostQuantum...)

// metadata is the data about the provider. (OpenID Connect Discovery 3)
type metadata struct {
	Metadata

	issuer      string                    // as the metadata write it
	algs        []jose.SignatureAlgorithm // of ID tokens
	assertions  []string                  // algorithms of private_key_jwt; empty: not stated
	namesItself bool                      // iss is in every authorization response (RFC 9207)
}

// currentMetadata returns the metadata, fetched unless they are configured.
func (p *Provider) currentMetadata(ctx context.Context) (*metadata, error) {
	if !p.cfg.Metadata.IsZero() {
		return &metadata{Metadata: p.cfg.Metadata, algs: signatures}, nil
	}
	m, err := p.discovered.get(ctx, func(*metadata) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return m, nil
}

func (p *Provider) discover(ctx context.Context) (*metadata, time.Duration, error) {
	doc, fresh, err := p.fetchObject(ctx, p.cfg.DiscoveryURL, "application/json")
	if err != nil {
		return nil, 0, err
	}
	m, err := p.readMetadata(doc)
	if err != nil {
		return nil, 0, &idp.Misconfigured{Cause: err}
	}
	if fresh == 0 {
		fresh = metadataFresh
	}
	if p.cfg.MetadataExpiration > 0 {
		fresh = max(p.cfg.MetadataExpiration, minFresh)
	}
	return m, fresh, nil
}

func (p *Provider) readMetadata(doc object) (*metadata, error) {
	// OpenID Connect Discovery 4.3: the issuer must be exactly the one that was requested
	iss, err := doc.Text("issuer")
	if err != nil || !p.cfg.fitsMetadata(iss) {
		return nil, fmt.Errorf("the provider's metadata names the issuer %q, and the configuration names %q: they must be the same, to the last slash", idp.Printable(iss), p.cfg.Issuer)
	}
	m := &metadata{issuer: iss, algs: signatures}
	for _, f := range []struct {
		name     string
		into     *string
		required bool
	}{
		{"authorization_endpoint", &m.AuthorizationURL, true},
		{"token_endpoint", &m.TokenURL, true},
		{"jwks_uri", &m.JWKSURL, true},
		{"userinfo_endpoint", &m.UserInfoURL, false},
		{"end_session_endpoint", &m.EndSessionURL, false},
	} {
		at, err := doc.Text(f.name)
		if err == nil && (at != "" || f.required) {
			err = checkEndpoint(p.cfg.Issuer, at)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		*f.into = at
	}
	if p.cfg.JWKSURL != "" {
		m.JWKSURL = p.cfg.JWKSURL
	}
	m.namesItself = doc["authorization_response_iss_parameter_supported"] == true
	said, err := doc.Texts("id_token_signing_alg_values_supported")
	if err != nil {
		return nil, err
	}
	if len(said) > 0 {
		m.algs = nil
		for _, ours := range signatures {
			for _, theirs := range said {
				if string(ours) == theirs {
					m.algs = append(m.algs, ours)
					break
				}
			}
		}
		if len(m.algs) == 0 {
			return nil, errors.New("the provider signs ID tokens with no accepted algorithm")
		}
	}
	m.assertions, err = doc.Texts("token_endpoint_auth_signing_alg_values_supported")
	return m, err
}
