package introspect

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

const (
	keysFresh = 15 * time.Minute
	keysStale = 24 * time.Hour // longest use while they cannot be fetched
	keysAgain = time.Minute    // least time between two fetches of a set that is there
	maxKeys   = 64
	rsaBits   = 2048

	typeSigned = "token-introspection+jwt" // RFC 9701 5
)

// signatures are the algorithms that are accepted: a public key cannot be taken for a shared secret.
var signatures = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// verify returns the claims of a signed answer. (RFC 9701 5) asked is when it was asked for.
func (s *Server) verify(ctx context.Context, raw string, asked time.Time) (map[string]any, error) {
	parsed, err := jose.ParseSignedCompact(raw, signatures)
	if err != nil || len(parsed.Signatures) != 1 {
		return nil, failure("its answer is not one signed JWT")
	}
	header := parsed.Signatures[0].Protected
	// RFC 8725 3.11: an access token or ID token of the same server is not an answer
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !slices.Contains([]string{typeSigned, mediaSigned}, strings.ToLower(typ)) {
		return nil, failure("its answer is a JWT of another type than %s", typeSigned)
	}
	payload, err := s.keys.verify(ctx, s.now(), parsed)
	if err != nil {
		return nil, err
	}
	claims, err := readObject(payload)
	if err != nil {
		return nil, err
	}
	aud, audErr := strictjson.Texts(claims, "aud")
	iat, iatErr := strictjson.Moment(claims, "iat")
	exp, expErr := strictjson.Moment(claims, "exp")
	now := s.now()
	switch {
	case claims["iss"] != s.cfg.issuer:
		return nil, failure("iss of its answer is not the option introspect issuer")
	case audErr != nil || !slices.Contains(aud, s.cfg.client): // RFC 9701 5: for whom it is meant
		return nil, failure("aud of its answer is not the option introspect client")
	case iatErr != nil || iat.IsZero() || iat.After(now.Add(skew)) || iat.Before(asked.Add(-skew)):
		return nil, failure("iat of its answer is not the present time")
	case expErr != nil || !exp.IsZero() && !exp.After(now):
		return nil, failure("its answer has expired")
	}
	doc, ok := claims["token_introspection"].(map[string]any)
	if !ok {
		return nil, failure("its answer has no token_introspection")
	}
	return doc, nil
}

// keyCache holds the server's published keys.
type keyCache struct {
	fetch func(ctx context.Context) ([]jose.JSONWebKey, error)

	mu         sync.Mutex // guards all below, and is held while they are fetched: nothing can be verified meanwhile
	keys       []jose.JSONWebKey
	got, tried time.Time
}

// verify returns the payload of a token that one of the server's keys has signed. The token's own hints about its key
// (jwk, jku, x5u, x5c) are ignored. (RFC 8725 3.10)
func (c *keyCache) verify(ctx context.Context, now time.Time, signed *jose.JSONWebSignature) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	payload, ok := verifyWith(c.keys, signed)
	if ok && now.Sub(c.got) < keysFresh {
		return payload, nil
	}
	if len(c.keys) == 0 || now.Sub(c.tried) >= keysAgain || now.Before(c.tried) {
		c.tried = now
		switch keys, err := c.fetch(ctx); {
		case err == nil:
			c.keys, c.got = keys, now
			payload, ok = verifyWith(keys, signed)
		case !ok:
			return nil, err
		}
	}
	if !ok || now.Sub(c.got) >= keysStale {
		return nil, failure("no key of introspect jwks has signed its answer")
	}
	return payload, nil
}

func verifyWith(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, bool) {
	header := signed.Signatures[0].Header
	for _, k := range keys {
		if (header.KeyID == "" || k.KeyID == header.KeyID) && (k.Algorithm == "" || k.Algorithm == header.Algorithm) &&
			jwa.Suits(k.Key, header.Algorithm) {
			if payload, err := signed.Verify(k.Key); err == nil {
				return payload, true
			}
		}
	}
	return nil, false
}

// fetchKeys reads the server's JWK set. Keys for other purposes are ignored, as RFC 7517 5 says.
func (s *Server) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.jwks, nil)
	if err != nil {
		return nil, failure("the address of its keys is not valid")
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	body, _, err := s.send(req, mediaJSON, "application/jwk-set+json")
	if err != nil {
		return nil, failure("introspect jwks: %v", err)
	}
	doc, err := readObject(body)
	if err != nil {
		return nil, err
	}
	list, ok := doc["keys"].([]any)
	if !ok || len(list) > maxKeys {
		return nil, failure("introspect jwks: want keys, an array of at most %d", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, one := range list {
		raw, err := json.Marshal(one)
		if err != nil {
			continue
		}
		if key, ok := jwa.ReadVerifying(raw); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, failure("introspect jwks: there is no acceptable key")
	}
	return keys, nil
}
