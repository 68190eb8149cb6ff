package clientstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keyset"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A client that has a key signs an assertion instead of sending a secret. (RFC 7521 4.2, RFC 7523 2.2, OpenID Connect
// Core 9, private_key_jwt)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

	maxAssertion    = 16 << 10         // bytes
	assertionMargin = 10 * time.Minute // how much longer than its validity a used one is remembered
	maxAssertionID  = 256              // bytes of jti
	assertionAhead  = 5 * time.Minute  // how far ahead exp can lie
	assertionSkew   = 30 * time.Second
)

// readAssertion says which client a request claims to be by its assertion. Nothing of it is verified yet.
func (r *Registry) readAssertion(f oauth.Form) (identification, error) {
	if f.Get("client_assertion_type") != assertionType || !f.Has("client_assertion") {
		return identification{id: f.Get("client_id")}, oauth.InvalidClient(errAssertion)
	}
	raw := f.Get("client_assertion")
	if len(raw) > maxAssertion {
		return identification{}, oauth.InvalidClient(errAssertion)
	}
	parsed, err := jose.ParseSignedCompact(raw, client.AssertionAlgorithms)
	if err != nil {
		return identification{id: f.Get("client_id")}, oauth.InvalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	var claims client.AssertionClaims
	err = json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &claims)
	if err == nil && r.workloads.Knows(claims.Issuer) { // its sub is the workload, not the client
		return identification{id: f.Get("client_id"), secret: raw, method: client.MethodWorkload}, nil
	}
	if err != nil || client.CheckID(claims.Subject) != nil {
		return identification{id: f.Get("client_id")}, oauth.InvalidClient(errAssertion)
	}
	if f.Has("client_id") && f.Get("client_id") != claims.Subject { // RFC 7521 4.2
		return identification{}, oauth.InvalidRequest(nil, "client_id is not the authenticated client")
	}
	return identification{id: claims.Subject, secret: raw, method: client.MethodPrivateKey}, nil
}

// proving returns a client that can authenticate by a method of assertions.
func (r *Registry) proving(ctx context.Context, id, method string) (*client.Client, error) {
	c, err := r.Get(ctx, id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, oauth.InvalidClient(errUnknownClient)
	case err != nil:
		return nil, err
	case c.Disabled:
		return nil, oauth.InvalidClient(errDisabled)
	case c.AuthMethod != method:
		return nil, oauth.InvalidClient(errMethod)
	}
	return c, nil
}

// authenticateByKey returns the client whose key signed the assertion. An assertion is valid once.
func (r *Registry) authenticateByKey(ctx context.Context, p identification) (*client.Client, error) {
	c, err := r.proving(ctx, p.id, client.MethodPrivateKey)
	if err != nil {
		return nil, err
	}
	payload, err := r.Signed(ctx, c, p.secret, client.AssertionAlgorithms, "JWT", "client-authentication+jwt")
	if e := new(oauth.Error); errors.As(err, &e) {
		return nil, err // the keys cannot be fetched
	}
	if err != nil {
		return nil, oauth.InvalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	now := r.now()
	claims, expires, err := r.checkAssertion(c, payload, now)
	if err != nil {
		return nil, oauth.InvalidClient(fmt.Errorf("%w: %w", errAssertion, err))
	}
	err = r.update(ctx, func(tx storage.Tx) error { // RFC 7523 3, 7: the jti is used once
		return assertions.Create(tx, storage.Key(c.ID, secret.Hash(claims.ID)), struct{}{}, expires.Add(assertionMargin))
	})
	if errors.Is(err, storage.ErrExists) {
		return nil, oauth.InvalidClient(errReplayed)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Signed returns what one of the keys of a client has signed with one of the algorithms. A type in the header must be
// one of types: what was signed for another purpose is refused (RFC 8725 3.11). Keys that the header brings or points
// to do not count.
func (r *Registry) Signed(ctx context.Context, c *client.Client, raw string, algorithms []jose.SignatureAlgorithm,
	types ...string,
) ([]byte, error) {
	parsed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return nil, err
	}
	header := parsed.Signatures[0].Header
	if typ, sent := header.ExtraHeaders[jose.HeaderType]; sent {
		text, _ := typ.(string)
		if !slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, text) || strings.EqualFold("application/"+t, text) }) {
			return nil, errors.New("another kind of token")
		}
	}
	if !c.Allows(header.Algorithm) { // FAPI 2.0 Security Profile 5.4.1
		return nil, oauth.InvalidClient(fmt.Errorf("%w: %s is refused by fapi2", errAssertion, header.Algorithm))
	}
	keys, err := r.keysOf(ctx, c, keyset.Named(header.KeyID))
	if err != nil {
		return nil, err
	}
	if payload, ok := client.Verify(parsed, keys); ok {
		return payload, nil
	}
	return nil, errors.New("no key of the client has signed it")
}

// checkAssertion checks the claims of a verified assertion. (RFC 7523 3)
func (r *Registry) checkAssertion(c *client.Client, payload []byte, now time.Time) (
	claims client.AssertionClaims, expires time.Time, err error,
) {
	if err := json.Unmarshal(payload, &claims); err != nil {
		return claims, expires, err
	}
	if claims.Issuer != c.ID || claims.Subject != c.ID {
		return claims, expires, errors.New("iss or sub is not the client")
	}
	switch aud, isText := claims.SoleAudience(); {
	case !isText && c.FAPI2: // FAPI 2.0 Security Profile 5.3.2.1
		return claims, expires, errors.New("aud is not the issuer as a text")
	case aud != r.issuer:
		return claims, expires, errors.New("aud is not the issuer alone")
	}
	if claims.Expires == nil || claims.ID == "" || len(claims.ID) > maxAssertionID {
		return claims, expires, errors.New("exp or jti is missing or too long")
	}
	ahead := func(t *float64) time.Duration { return client.Ahead(*t, now) }
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

const maxRemote = 4096 // remembered sets

// remoteKeys are the keys that were fetched from clients.
type remoteKeys struct {
	mu sync.Mutex // guards of
	of map[string]*keyset.Set
}

func (k *remoteKeys) set(id string) *keyset.Set {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxRemote {
		k.of = map[string]*keyset.Set{}
	}
	if k.of[id] == nil {
		k.of[id] = new(keyset.Set)
	}
	return k.of[id]
}

// keysOf returns the keys of a client. Those behind a URL are fetched again when none of them is wanted: see
// keyset.Set.
func (r *Registry) keysOf(ctx context.Context, c *client.Client, wanted func(jose.JSONWebKey) bool) ([]jose.JSONWebKey, error) {
	if c.JWKS != nil {
		return c.JWKS.Keys, nil
	}
	keys, err := r.remote.set(c.ID+" "+c.JWKSURI).Find(ctx, r.now(), wanted,
		func(ctx context.Context) ([]jose.JSONWebKey, error) { return r.fetchKeys(ctx, c) })
	if keys == nil {
		return nil, oauth.TemporarilyUnavailable(fmt.Errorf("keys of client %s: %w", c.ID, err))
	}
	return keys, nil
}

// EncryptionKey returns the key of a client that its answers are encrypted for.
func (r *Registry) EncryptionKey(ctx context.Context, c *client.Client, alg string) (*jose.JSONWebKey, error) {
	keys, err := r.keysOf(ctx, c, keyset.Named(""))
	if err != nil {
		return nil, err
	}
	if key := client.EncryptionKey(keys, alg); key != nil {
		return key, nil
	}
	return nil, oauth.InvalidRequest(nil, "the client has no key for the encryption of its answers")
}

// fetchKeys reads the client's jwks_uri. (RFC 7591 2)
func (r *Registry) fetchKeys(ctx context.Context, c *client.Client) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.JWKSURI, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := r.HTTPClient(c).Do(req)
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
	return client.ParseClientKeys(body)
}
