package authz

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A client that has a key signs an assertion instead of sending a secret. (RFC 7521 4.2, RFC 7523 2.2, OpenID Connect Core 9,
// private_key_jwt)

const (
	methodPrivateKey = "private_key_jwt"
	assertionType    = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

	maxAssertion   = 16 << 10        // bytes
	maxAssertionID = 256             // bytes of jti
	assertionAhead = 5 * time.Minute // how far ahead exp may lie
	assertionSkew  = 30 * time.Second
	maxClientKeys  = 64
)

// assertionAlgs are the algorithms that an assertion may be signed with: never a shared secret, never none.
var assertionAlgs = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// assertionClaims are the claims of RFC 7523 3. Times may have fractions (RFC 7519 2).
type assertionClaims struct {
	Issuer    string          `json:"iss"`
	Subject   string          `json:"sub"`
	Audience  json.RawMessage `json:"aud"`
	Expires   *float64        `json:"exp"`
	NotBefore *float64        `json:"nbf"`
	IssuedAt  *float64        `json:"iat"`
	ID        string          `json:"jti"`
}

// readAssertion says which client a request claims to be by its assertion. Nothing of it is verified yet.
func readAssertion(f form) (presented, error) {
	if f.get("client_assertion_type") != assertionType || !f.has("client_assertion") {
		return presented{id: f.get("client_id")}, invalidClient(errAssertion)
	}
	raw := f.get("client_assertion")
	if len(raw) > maxAssertion {
		return presented{}, invalidClient(errAssertion)
	}
	parsed, err := jose.ParseSignedCompact(raw, assertionAlgs)
	if err != nil {
		return presented{id: f.get("client_id")}, invalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	var claims assertionClaims
	if err := json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &claims); err != nil || checkID(claims.Subject) != nil {
		return presented{id: f.get("client_id")}, invalidClient(errAssertion)
	}
	if f.has("client_id") && f.get("client_id") != claims.Subject { // RFC 7521 4.2
		return presented{}, invalidRequest(nil, "client_id is not the authenticated client")
	}
	return presented{id: claims.Subject, secret: raw, method: methodPrivateKey}, nil
}

// authenticateByKey returns the client whose key signed the assertion, which is good once.
func (s *Server) authenticateByKey(ctx context.Context, p presented) (*Client, error) {
	c, err := s.findClient(ctx, p.id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, invalidClient(errUnknownClient)
	case err != nil:
		return nil, err
	case c.Disabled:
		return nil, invalidClient(errDisabled)
	case c.AuthMethod != methodPrivateKey:
		return nil, invalidClient(errMethod)
	}
	payload, err := s.verifyAssertion(ctx, c, p.secret)
	if err != nil {
		return nil, err
	}
	now := s.now()
	claims, expires, err := s.checkAssertion(c, payload, now)
	if err != nil {
		return nil, invalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	err = s.update(ctx, func(tx storage.Tx) error { // RFC 7523 3, 7: the jti is used once, whoever asks first
		return assertions.Create(tx, storage.Key(c.ID, secret.Hash(claims.ID)), struct{}{}, expires.Add(collectMargin))
	})
	if errors.Is(err, storage.ErrExists) {
		return nil, invalidClient(errReplayed)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// verifyAssertion returns the payload that one of the client's keys has signed.
func (s *Server) verifyAssertion(ctx context.Context, c *Client, raw string) ([]byte, error) {
	parsed, err := jose.ParseSignedCompact(raw, assertionAlgs)
	if err != nil {
		return nil, invalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	header := parsed.Signatures[0].Header
	if typ, ok := header.ExtraHeaders[jose.HeaderType].(string); ok && !strings.EqualFold(typ, "JWT") && !strings.EqualFold(typ, "client-authentication+jwt") {
		return nil, invalidClient(fmt.Errorf("%w: another kind of token", errAssertion)) // RFC 8725 3.11
	}
	keys, err := s.clientKeys(ctx, c, header.KeyID)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if (header.KeyID != "" && key.KeyID != "" && key.KeyID != header.KeyID) || (key.Algorithm != "" && key.Algorithm != header.Algorithm) {
			continue
		}
		if payload, err := parsed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, invalidClient(fmt.Errorf("%w: no key of the client has signed it", errAssertion))
}

// checkAssertion checks the claims of a verified assertion. (RFC 7523 3)
func (s *Server) checkAssertion(c *Client, payload []byte, now time.Time) (claims assertionClaims, expires time.Time, err error) {
	if err := json.Unmarshal(payload, &claims); err != nil {
		return claims, expires, err
	}
	if claims.Issuer != c.ID || claims.Subject != c.ID {
		return claims, expires, errors.New("iss or sub is not the client")
	}
	// Only our issuer, and no other beside it: an assertion that is meant for several could be used by one of them here.
	var one string
	var several []string
	if json.Unmarshal(claims.Audience, &one) != nil {
		if err := json.Unmarshal(claims.Audience, &several); err != nil || len(several) != 1 {
			return claims, expires, errors.New("aud is not the issuer alone")
		}
		one = several[0]
	}
	if one != s.cfg.Issuer {
		return claims, expires, errors.New("aud is not the issuer")
	}
	if claims.Expires == nil || claims.ID == "" || len(claims.ID) > maxAssertionID {
		return claims, expires, errors.New("exp or jti is missing or too long")
	}
	ahead := func(t *float64) time.Duration {
		return time.Duration(max(min(*t-float64(now.Unix()), 1<<30), -1<<30) * float64(time.Second))
	}
	switch {
	case ahead(claims.Expires) <= 0:
		return claims, expires, errors.New("it has expired")
	case ahead(claims.Expires) > assertionAhead+assertionSkew:
		return claims, expires, errors.New("exp is too far ahead")
	case claims.NotBefore != nil && ahead(claims.NotBefore) > assertionSkew, claims.IssuedAt != nil && ahead(claims.IssuedAt) > assertionSkew:
		return claims, expires, errors.New("it is not valid yet")
	}
	return claims, now.Add(ahead(claims.Expires)), nil
}

// usableKeys are the public keys of a set that can have signed an assertion. Others are passed over, as RFC 7517 5 says; a private
// key is an error, since whoever published it has lost it.
func usableKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxClientKeys {
		return nil, fmt.Errorf("more than %d keys", maxClientKeys)
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) != nil {
			continue // of a kind that we do not know
		}
		if !key.IsPublic() {
			return nil, errors.New("holds a private or symmetric key: publish the public part alone")
		}
		if canSign(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key for RS256, PS256, ES256 or EdDSA signatures")
	}
	return keys, nil
}

func canSign(key *jose.JSONWebKey) bool {
	if !key.Valid() || (key.Use != "" && key.Use != "sig") || (key.Algorithm != "" && !slices.Contains(assertionAlgs, jose.SignatureAlgorithm(key.Algorithm))) {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= rsaBits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return true
	}
	return false
}

const (
	keysFresh = 15 * time.Minute // how long fetched keys are used without looking again
	keysRetry = time.Minute      // how soon they are fetched again, whatever is asked
	keysStale = 24 * time.Hour   // how long they are used while nothing can be fetched
	maxRemote = 4096             // remembered sets
)

// remoteKeys are the keys that clients publish, as far as they were fetched.
type remoteKeys struct {
	mu sync.Mutex // guards of
	of map[string]*remoteSet
}

// remoteSet is what one client publishes.
type remoteSet struct {
	mu      sync.Mutex // guards all below; it is not held while keys are fetched
	keys    []jose.JSONWebKey
	fetched time.Time // when it worked last
	tried   time.Time
	err     error         // of the last try
	busy    chan struct{} // closed when the fetch under way is done; nil: there is none
}

// has tells whether a key that an assertion names is here. mu is held.
func (r *remoteSet) has(kid string) bool {
	return len(r.keys) > 0 && (kid == "" || slices.ContainsFunc(r.keys, func(k jose.JSONWebKey) bool { return k.KeyID == kid }))
}

// refresh fetches the keys, once at a time and at most once a minute. Whoever finds a fetch under way waits for it only when the key
// in question is not here yet: a stranger who names an unknown key and a slow client hold up nobody. mu is held before and after.
func (r *remoteSet) refresh(ctx context.Context, now time.Time, needed bool, fetch func() ([]jose.JSONWebKey, error)) {
	if r.busy != nil {
		if !needed {
			return
		}
		busy := r.busy
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		r.mu.Lock()
		return
	}
	if !r.tried.IsZero() && now.Sub(r.tried) < keysRetry {
		return
	}
	busy := make(chan struct{})
	r.tried, r.busy = now, busy
	r.mu.Unlock()
	keys, err := fetch()
	r.mu.Lock()
	if r.err = err; err == nil {
		r.keys, r.fetched = keys, now
	}
	r.busy = nil
	close(busy)
}

func (r *remoteKeys) set(id string) *remoteSet {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= maxRemote {
		r.of = map[string]*remoteSet{}
	}
	if r.of[id] == nil {
		r.of[id] = &remoteSet{}
	}
	return r.of[id]
}

// clientKeys returns the keys of a client. Those behind a URL are fetched when they are old or the key that is asked for is not among
// them, and at most once a minute: otherwise anybody could make us call the client as often as they like.
func (s *Server) clientKeys(ctx context.Context, c *Client, kid string) ([]jose.JSONWebKey, error) {
	if c.JWKS != nil {
		return c.JWKS.Keys, nil
	}
	set := s.remote.set(c.ID + " " + c.JWKSURI)
	set.mu.Lock()
	defer set.mu.Unlock()
	now := s.now()
	if known := set.has(kid); !known || now.Sub(set.fetched) >= keysFresh {
		set.refresh(ctx, now, !known, func() ([]jose.JSONWebKey, error) { return s.fetchKeys(context.WithoutCancel(ctx), c) })
	}
	if len(set.keys) > 0 && now.Sub(set.fetched) < keysStale {
		return set.keys, nil
	}
	return nil, temporarilyUnavailable(fmt.Errorf("keys of client %s: %w", c.ID, set.err))
}

// fetchKeys reads the client's jwks_uri. (RFC 7591 2)
func (s *Server) fetchKeys(ctx context.Context, c *Client) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.JWKSURI, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := s.outboundFor(c).Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch jwks_uri: %w", errors.Unwrap(err))
	}
	defer res.Body.Close()
	body, err := outbound.Body(res)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch jwks_uri: status %d", res.StatusCode)
	}
	return usableKeys(body)
}

// ParseJWKS reads the public keys of a client.
func ParseJWKS(raw []byte) (*jose.JSONWebKeySet, error) {
	keys, err := usableKeys(raw)
	if err != nil {
		return nil, err
	}
	return &jose.JSONWebKeySet{Keys: keys}, nil
}

// checkKeys judges the keys of a client that authenticates by them.
func (c *Client) checkKeys(p *problems) {
	switch {
	case c.AuthMethod != methodPrivateKey:
		if c.JWKS != nil || c.JWKSURI != "" {
			p.addf("jwks: it is for auth_method private_key_jwt: set that, or remove jwks")
		}
		return
	case len(c.Secrets)+len(c.SecretHashes) > 0:
		p.addf("secret: a client with auth_method private_key_jwt has keys instead: remove either")
	case (c.JWKS != nil) == (c.JWKSURI != ""):
		p.addf("jwks is missing: auth_method private_key_jwt needs a file or a URL with the client's public keys")
	case c.JWKSURI != "":
		if err := validateRedirectURI(c.JWKSURI); err != nil {
			p.addf("jwks: %q: %w", c.JWKSURI, err)
		} else if !strings.HasPrefix(c.JWKSURI, "https://") && !strings.HasPrefix(c.JWKSURI, "http://") {
			p.addf("jwks: %q: must be https", c.JWKSURI)
		}
	case len(c.JWKS.Keys) == 0 || len(c.JWKS.Keys) > maxClientKeys || slices.ContainsFunc(c.JWKS.Keys, func(k jose.JSONWebKey) bool { return !k.IsPublic() || !canSign(&k) }):
		p.addf("jwks: want 1 to %d public keys for RS256, PS256, ES256 or EdDSA", maxClientKeys)
	}
}
