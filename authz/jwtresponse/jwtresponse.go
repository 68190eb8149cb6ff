// Package jwtresponse signs and encrypts responses for one client: JARM, introspection, userinfo, ID tokens. Each has
// the algorithm of that client, and is encrypted for its key if it asks for that.
package jwtresponse

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keys"
)

// responseLifetime is the validity of an authorization response: for the way through the browser. (JARM 2.1: at most
// ten minutes)
const responseLifetime = 5 * time.Minute

// The default of OpenID Connect and RFC 9701, which every client knows.
const defaultAlg = "RS256"

// MediaIntrospection is the media type of a signed answer about a token. (RFC 9701 4)
const MediaIntrospection = "application/" + keys.TypeIntrospection

// Envelopes are those of an issuer. They are safe for concurrent use.
type Envelopes struct {
	issuer string
	keys   *keys.Keys
	now    func() time.Time
}

// New returns the envelopes of an issuer.
func New(issuer string, k *keys.Keys, now func() time.Time) *Envelopes {
	return &Envelopes{issuer: issuer, keys: k, now: now}
}

// Response signs an authorization response for a client. (JWT Secured Authorization Response Mode 2.1) It has no type,
// so it passes for no token of another kind.
func (e *Envelopes) Response(c *client.Client, params url.Values) (string, error) {
	claims := map[string]any{}
	for name := range params {
		claims[name] = params.Get(name)
	}
	claims["iss"], claims["aud"], claims["exp"] = e.issuer, c.ID, e.now().Add(responseLifetime).Unix()
	return e.keys.Sign(algOr(c.ResponseAlg), keys.TypeResponse, claims)
}

// Introspection signs what an API client is told about a token. (RFC 9701 5)
func (e *Envelopes) Introspection(c *client.APIClient, answer json.RawMessage) (string, error) {
	return e.keys.Sign(algOr(c.IntrospectionAlg), keys.TypeIntrospection, struct {
		Issuer   string          `json:"iss"`
		Audience string          `json:"aud"`
		IssuedAt int64           `json:"iat"`
		Answer   json.RawMessage `json:"token_introspection"`
	}{e.issuer, c.ID, e.now().Unix(), answer})
}

// Userinfo signs the claims of a person for a client, and encrypts them if it asks for that. (OpenID Connect Core
// 5.3.2) It has no type, so it does not pass for an ID token.
func (e *Envelopes) Userinfo(ctx context.Context, from Recipients, c *client.Client, claims map[string]any) (string, error) {
	claims["iss"], claims["aud"] = e.issuer, c.ID
	signed, err := e.keys.Sign(c.UserinfoAlg, keys.TypeResponse, claims)
	if err != nil {
		return "", err
	}
	return Encrypt(ctx, from, c, c.UserinfoEncryption(), signed)
}

// Recipients knows the keys of clients. Its errors are answers for them.
type Recipients interface {
	EncryptionKey(ctx context.Context, c *client.Client, alg string) (*jose.JSONWebKey, error)
}

// Encrypt encrypts a signed JWT for a client. (RFC 7519 A.2) Without an algorithm it returns it as it is.
func Encrypt(ctx context.Context, from Recipients, c *client.Client, how client.Encryption, signed string) (string, error) {
	if how.Alg == "" {
		return signed, nil
	}
	key, err := from.EncryptionKey(ctx, c, how.Alg)
	if err != nil {
		return "", err
	}
	to := jose.Recipient{Algorithm: jose.KeyAlgorithm(how.Alg), Key: key.Key, KeyID: key.KeyID}
	encrypter, err := jose.NewEncrypter(jose.ContentEncryption(how.Enc), to, (&jose.EncrypterOptions{}).WithContentType("JWT"))
	if err != nil {
		return "", err
	}
	sealed, err := encrypter.Encrypt([]byte(signed))
	if err != nil {
		return "", err
	}
	return sealed.CompactSerialize()
}

func algOr(alg string) string {
	if alg == "" {
		return defaultAlg
	}
	return alg
}

// Accepts reports whether a request asks for an answer of a media type by its name.
func Accepts(h http.Header, media string) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		q, weighed := params["q"]
		if err == nil && name == media && (!weighed || strings.Trim(q, "0.") != "") { // RFC 9110 12.4.2: 0 is no
			return true
		}
	}
	return false
}
