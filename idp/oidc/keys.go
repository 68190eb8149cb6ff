package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

const (
	keysFresh = 15 * time.Minute
	maxKeys   = 64
	maxKeyID  = 512 // bytes
)

// keySet is the provider's published keys, with the address that they were read from.
type keySet struct {
	from string
	keys []publicKey
}

// publicKey is a key with the issuer that it signs for, where the provider says it.
type publicKey struct {
	jose.JSONWebKey

	issuer string
}

var (
	errKey      = errors.New("no key of the provider has signed it")
	errNoKeys   = errors.New("its jwks contain no acceptable key")
	errUnsigned = errors.New("it is not one signed token")
)

// verifier implements go-oidc's KeySet for one provider and the algorithms that we accept there.
type verifier struct {
	p *Provider
	m *metadata
	// err is why verification was impossible. go-oidc passes errors on as text only.
	err error
	alg string // of the token that was verified last
}

// hashes reports whether at_hash of the ID token that was verified last is that of an access token. go-oidc knows none
// of ML-DSA.
func (v *verifier) hashes(id *oidc.IDToken, access string) bool {
	if jwa.IsPostQuantum(v.alg) {
		return same(id.AccessTokenHash, jwa.TokenHash(v.alg, access))
	}
	return id.VerifyAccessToken(access) == nil
}

// VerifySignature returns the payload of a token that a key of the provider has signed. Keys come from the provider's
// jwks only: the token's own hints about its key (jwk, jku, x5u, x5c) are ignored. (RFC 8725 3.10)
func (v *verifier) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	parsed, err := jose.ParseSignedCompact(raw, v.m.algs)
	if err != nil || len(parsed.Signatures) != 1 {
		return nil, errUnsigned
	}
	header := parsed.Signatures[0].Header
	v.alg = header.Algorithm
	if len(header.KeyID) > maxKeyID {
		return nil, errKey
	}
	set, err := v.p.keys.get(ctx, func(s keySet) bool { return s.from == v.m.JWKSURL && len(candidates(s.keys, header)) > 0 })
	if err == nil && set.from != v.m.JWKSURL {
		err = errors.New("those of the new address are not there yet")
	}
	if err != nil {
		v.err = fmt.Errorf("jwks: %w", err)
		return nil, v.err
	}
	if payload, ok := set.verify(parsed, v.p.cfg.keyFits); ok {
		return payload, nil
	}
	// The provider can have replaced a key under the same kid. The cache looks again once a minute at most.
	newer, err := v.p.keys.get(ctx, func(s keySet) bool { return s.from == v.m.JWKSURL && !s.is(set) })
	if err == nil && newer.from == v.m.JWKSURL && !newer.is(set) {
		if payload, ok := newer.verify(parsed, v.p.cfg.keyFits); ok {
			return payload, nil
		}
	}
	return nil, errKey
}

// verify returns the payload of a token that one of the keys has signed, if that key signs for its issuer.
func (s keySet) verify(token *jose.JSONWebSignature, fits func(issuer string, claims object) bool) (payload []byte, ok bool) {
	for _, key := range candidates(s.keys, token.Signatures[0].Header) {
		payload, err := token.Verify(jwa.Verifier(key.Key))
		if err != nil {
			continue
		}
		if key.issuer != "" {
			if claims, err := providerhttp.ReadObject(payload); err != nil || !fits(key.issuer, claims) {
				continue
			}
		}
		return payload, true
	}
	return nil, false
}

// is reports whether two sets come from one fetch. A set that was fetched has a key.
func (s keySet) is(other keySet) bool {
	return len(s.keys) > 0 && len(other.keys) > 0 && &s.keys[0] == &other.keys[0]
}

// candidates are the keys that can have made a signature. The kid alone chooses; without one, only one key can qualify.
// (OpenID Connect Core 10.1) The algorithm must fit the kind of key, so a public key is never used as a shared secret.
func candidates(keys []publicKey, header jose.Header) (out []publicKey) {
	for _, k := range keys {
		if (header.KeyID == "" || k.KeyID == header.KeyID) && (k.Algorithm == "" || k.Algorithm == header.Algorithm) &&
			jwa.Suits(k.Key, header.Algorithm) {
			out = append(out, k)
		}
	}
	if header.KeyID == "" && len(out) > 1 {
		return nil
	}
	return out
}

func (p *Provider) fetchKeys(ctx context.Context) (keySet, time.Duration, error) {
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return keySet{}, 0, err
	}
	doc, fresh, err := p.fetchObject(ctx, m.JWKSURL, "application/json", "application/jwk-set+json")
	if err != nil {
		return keySet{}, 0, err
	}
	keys, err := readKeys(doc)
	if fresh == 0 {
		fresh = keysFresh
	}
	return keySet{m.JWKSURL, keys}, min(fresh, time.Hour), err
}

// readKeys returns the public keys for signatures. Others are ignored, as RFC 7517 5 says.
func readKeys(doc object) ([]publicKey, error) {
	list, ok := doc["keys"].([]any)
	if !ok || len(list) > maxKeys {
		return nil, fmt.Errorf("want keys, an array of at most %d", maxKeys)
	}
	var keys []publicKey
	for _, one := range list {
		raw, err := json.Marshal(one)
		if err != nil {
			continue
		}
		key, ok := jwa.ReadVerifying(raw)
		if !ok || key.Algorithm != "" && !slices.Contains(signatures, jose.SignatureAlgorithm(key.Algorithm)) {
			continue
		}
		o, _ := one.(map[string]any)
		issuer := ""
		if o["issuer"] != nil {
			issuer = fmt.Sprint(o["issuer"]) // what is no text is no issuer
		}
		keys = append(keys, publicKey{key, issuer})
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}
