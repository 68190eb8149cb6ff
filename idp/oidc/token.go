package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	assertionLife = time.Minute

	maxToken = 128 << 10 // bytes of a token
)

// errGrant says that the provider refuses the code or refresh token.
var errGrant = errors.New("invalid_grant")

// tokens is the answer of the token endpoint, not verified yet.
type tokens struct {
	access, refresh, id string
	until               time.Time // when access ends. Zero: it is not known
}

// redeem asks the token endpoint. (RFC 6749 4.1.3 and 6)
func (p *Provider) redeem(ctx context.Context, m *metadata, form url.Values) (*tokens, error) {
	req, err := p.tokenRequest(ctx, m, form)
	if err != nil {
		return nil, err
	}
	a, err := p.calls.Ask(ctx, req, "application/json")
	if err != nil {
		return nil, err
	}
	doc, err := providerhttp.ReadObject(a.Body)
	if err != nil {
		return nil, fmt.Errorf("status %d: %w", a.Status, err)
	}
	if a.Status != http.StatusOK {
		code, err := doc.Text("error")
		if err == nil && code == "invalid_grant" && a.Status < http.StatusInternalServerError {
			return nil, errGrant
		}
		if !slices.Contains([]string{
			"invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type",
			"invalid_scope",
		}, code) {
			code = "an error"
		}
		return nil, fmt.Errorf("status %d: it answers %s", a.Status, code)
	}
	var t tokens
	for name, into := range map[string]*string{"access_token": &t.access, "refresh_token": &t.refresh, "id_token": &t.id} {
		if *into, err = doc.Text(name); err != nil {
			return nil, err
		}
		if len(*into) > maxToken {
			return nil, fmt.Errorf("%s is too long", name)
		}
	}
	kind, err := doc.Text("token_type")
	if err != nil || t.access == "" || !strings.EqualFold(kind, "Bearer") { // RFC 6749 5.1, OpenID Connect Core 3.1.3.3
		return nil, errors.New("it gave no bearer access token")
	}
	if err := providerhttp.CheckToken(t.access); err != nil {
		return nil, err
	}
	t.until = doc.Until(p.env.Now())
	return &t, nil
}

// tokenRequest authenticates us by one of the methods of OpenID Connect Core 9.
func (p *Provider) tokenRequest(ctx context.Context, m *metadata, form url.Values) (*http.Request, error) {
	id, pass := "", ""
	switch p.cfg.AuthMethod {
	case AuthBasic:
		id, pass = p.cfg.ClientID, p.cfg.ClientSecret.Reveal()
	case AuthPost:
		form.Set("client_id", p.cfg.ClientID)
		form.Set("client_secret", p.cfg.ClientSecret.Reveal())
	case authApple:
		made, err := p.secret.get(ctx, p)
		if err != nil {
			return nil, err
		}
		form.Set("client_id", p.cfg.ClientID)
		form.Set("client_secret", made)
	case AuthPrivateKey:
		assertion, err := p.assertion(ctx, m)
		if err != nil {
			return nil, err
		}
		form.Set("client_id", p.cfg.ClientID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	default:
		form.Set("client_id", p.cfg.ClientID)
	}
	return providerhttp.Form(m.TokenURL, form, id, pass)
}

// assertion is a JWT by which our key authenticates us. (RFC 7523 3) Its audience is the provider's issuer, not an
// address from its metadata, so a provider cannot obtain an assertion for another one. audience has the exception.
func (p *Provider) assertion(ctx context.Context, m *metadata) (string, error) {
	key, alg, err := p.signingKey(ctx, m)
	if err != nil {
		return "", err
	}
	audience, err := p.audience(m)
	if err != nil {
		return "", err
	}
	id, err := secret.ID(p.env.Random, 24)
	if err != nil {
		return "", fmt.Errorf("make a jti: %w", err)
	}
	now := p.env.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": p.cfg.ClientID, "sub": p.cfg.ClientID, "aud": audience, "jti": id,
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	return p.signJWT(key, alg, claims)
}

// signJWT signs claims with our key.
func (p *Provider) signJWT(key *signingKey, alg jose.SignatureAlgorithm, claims []byte) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jwa.Signer(key.signer)},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", key.id))
	if err != nil {
		return "", fmt.Errorf("sign with the key pair %q: %w", p.cfg.Key, err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("sign with the key pair %q: %w", p.cfg.Key, err)
	}
	return signed.CompactSerialize()
}

// signingKey is our key, and the kid under which the provider knows it.
type signingKey struct {
	signer crypto.Signer
	id     string
}

// signingKey returns our key for private_key_jwt, and an algorithm that we and the provider support.
func (p *Provider) signingKey(ctx context.Context, m *metadata) (key *signingKey, alg jose.SignatureAlgorithm, err error) {
	pair, err := p.env.KeyPair(ctx, p.cfg.Key)
	if err != nil {
		return nil, "", fmt.Errorf("key pair %q: %w", p.cfg.Key, err)
	}
	var can []jose.SignatureAlgorithm
	switch k := pair.Signer.(type) {
	case *rsa.PrivateKey:
		can = []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			can = []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			can = []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			can = []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PrivateKey:
		can = []jose.SignatureAlgorithm{jose.EdDSA}
	case *mldsa.PrivateKey:
		can = []jose.SignatureAlgorithm{jose.SignatureAlgorithm(k.PublicKey().Parameters().String())}
	}
	for _, a := range can {
		if len(m.assertions) == 0 || slices.Contains(m.assertions, string(a)) {
			id := p.cfg.KeyID
			if id == "" {
				if id, err = thumbprint(pair.Signer.Public()); err != nil {
					return nil, "", err
				}
			}
			return &signingKey{pair.Signer, id}, a, nil
		}
	}
	return nil, "", fmt.Errorf("key pair %q: it has no algorithm that the provider accepts", p.cfg.Key)
}

// thumbprint names a key. (RFC 7638)
func thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := jwa.Thumbprint(public)
	if err != nil {
		return "", fmt.Errorf("name a key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
