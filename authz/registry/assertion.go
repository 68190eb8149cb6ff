package registry

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

// assertionClaims are the claims of RFC 7523 3. Times can have fractions (RFC 7519 2).
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
	var claims assertionClaims
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

// authenticateByKey returns the client whose key signed the assertion. An assertion is valid once.
func (r *Registry) authenticateByKey(ctx context.Context, p identification) (*client.Client, error) {
	c, err := r.Get(ctx, p.id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, oauth.InvalidClient(errUnknownClient)
	case err != nil:
		return nil, err
	case c.Disabled:
		return nil, oauth.InvalidClient(errDisabled)
	case c.AuthMethod != client.MethodPrivateKey:
		return nil, oauth.InvalidClient(errMethod)
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
func (r *Registry) Signed(ctx context.Context, c *client.Client, raw string, algorithms []jose.SignatureAlgorithm, types ...string) ([]byte, error) {
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
	if c.FAPI2 && header.Algorithm == string(jose.RS256) { // FAPI 2.0 Security Profile 5.4.1
		return nil, oauth.InvalidClient(fmt.Errorf("%w: RS256 is refused by fapi2", errAssertion))
	}
	keys, err := r.clientKeys(ctx, c, header.KeyID)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !client.CanSign(&key) || (header.KeyID != "" && key.KeyID != "" && key.KeyID != header.KeyID) || (key.Algorithm != "" && key.Algorithm != header.Algorithm) {
			continue
		}
		if payload, err := parsed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the client has signed it")
}

// checkAssertion checks the claims of a verified assertion. (RFC 7523 3)
func (r *Registry) checkAssertion(c *client.Client, payload []byte, now time.Time) (claims assertionClaims, expires time.Time, err error) {
	if err := json.Unmarshal(payload, &claims); err != nil {
		return claims, expires, err
	}
	if claims.Issuer != c.ID || claims.Subject != c.ID {
		return claims, expires, errors.New("iss or sub is not the client")
	}
	// Our issuer must be the only audience: one of several could use the assertion here.
	var one string
	var several []string
	if json.Unmarshal(claims.Audience, &one) != nil {
		if c.FAPI2 { // FAPI 2.0 Security Profile 5.3.2.1
			return claims, expires, errors.New("aud is not the issuer as a text")
		}
		if err := json.Unmarshal(claims.Audience, &several); err != nil || len(several) != 1 {
			return claims, expires, errors.New("aud is not the issuer alone")
		}
		one = several[0]
	}
	if one != r.issuer {
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

const (
	keysFresh = 15 * time.Minute // how long fetched keys are used without looking again
	keysRetry = time.Minute      // the shortest time between two fetches
	keysStale = 24 * time.Hour   // how long they are used while nothing can be fetched
	maxRemote = 4096             // remembered sets
)

// remoteKeys are the keys that were fetched from clients.
type remoteKeys struct {
	mu sync.Mutex // guards of
	of map[string]*remoteSet
}

// remoteSet is the keys of one client.
type remoteSet struct {
	mu      sync.Mutex // guards all below; it is not held while keys are fetched
	keys    []jose.JSONWebKey
	fetched time.Time // when it worked last
	tried   time.Time
	err     error         // of the last try
	busy    chan struct{} // closed when the current fetch is done; nil: no fetch runs
}

// has tells whether the set has a key that is wanted. nil: any. mu is held.
func (k *remoteSet) has(wanted func(jose.JSONWebKey) bool) bool {
	return len(k.keys) > 0 && (wanted == nil || slices.ContainsFunc(k.keys, wanted))
}

// refresh fetches the keys, once at a time and at most once a minute. A caller waits for a running fetch only when its
// key is not here yet, so a stranger who names an unknown key and a slow client block no one else. mu is held before
// and after.
func (k *remoteSet) refresh(ctx context.Context, now time.Time, needed bool, fetch func() ([]jose.JSONWebKey, error)) {
	if k.busy != nil {
		if !needed {
			return
		}
		busy := k.busy
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		k.mu.Lock()
		return
	}
	if !k.tried.IsZero() && now.Sub(k.tried) < keysRetry {
		return
	}
	busy := make(chan struct{})
	k.tried, k.busy = now, busy
	k.mu.Unlock()
	keys, err := fetch()
	k.mu.Lock()
	if k.err = err; err == nil {
		k.keys, k.fetched = keys, now
	}
	k.busy = nil
	close(busy)
}

func (k *remoteKeys) set(id string) *remoteSet {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxRemote {
		k.of = map[string]*remoteSet{}
	}
	if k.of[id] == nil {
		k.of[id] = &remoteSet{}
	}
	return k.of[id]
}

// clientKeys returns the keys of a client. Those behind a URL are fetched when they are old or the key that is asked
// for is not among them, and at most once a minute, so that strangers cannot make us call the client at will.
func (r *Registry) clientKeys(ctx context.Context, c *client.Client, kid string) ([]jose.JSONWebKey, error) {
	if kid == "" {
		return r.keysOf(ctx, c, nil)
	}
	return r.keysOf(ctx, c, func(key jose.JSONWebKey) bool { return key.KeyID == kid })
}

// keysOf is clientKeys for any kind of wanted key.
func (r *Registry) keysOf(ctx context.Context, c *client.Client, wanted func(jose.JSONWebKey) bool) ([]jose.JSONWebKey, error) {
	if c.JWKS != nil {
		return c.JWKS.Keys, nil
	}
	set := r.remote.set(c.ID + " " + c.JWKSURI)
	set.mu.Lock()
	defer set.mu.Unlock()
	now := r.now()
	if known := set.has(wanted); !known || now.Sub(set.fetched) >= keysFresh {
		set.refresh(ctx, now, !known, func() ([]jose.JSONWebKey, error) { return r.fetchKeys(context.WithoutCancel(ctx), c) })
	}
	if len(set.keys) > 0 && now.Sub(set.fetched) < keysStale {
		return set.keys, nil
	}
	return nil, oauth.TemporarilyUnavailable(fmt.Errorf("keys of client %s: %w", c.ID, set.err))
}

// EncryptionKey returns the key of a client that its answers are encrypted for.
func (r *Registry) EncryptionKey(ctx context.Context, c *client.Client, alg string) (*jose.JSONWebKey, error) {
	keys, err := r.clientKeys(ctx, c, "")
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
