package token

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// accessClaims are the claims of an access token that is a JWT. (RFC 9068 2.2) Existing resource servers read cid and
// usl.
type accessClaims struct {
	Issuer     string   `json:"iss"`
	Expires    int64    `json:"exp"`
	Audience   []string `json:"aud"`
	Subject    string   `json:"sub"`
	ClientID   string   `json:"client_id"`
	IssuedAt   int64    `json:"iat"`
	ID         string   `json:"jti"`
	Scope      string   `json:"scope,omitempty"`
	AuthTime   int64    `json:"auth_time,omitempty"`
	ACR        string   `json:"acr,omitempty"`
	AMR        []string `json:"amr,omitempty"`
	CID        string   `json:"cid"`
	UsageLimit int      `json:"usl,omitempty"`

	Confirmation Confirmation `json:"cnf,omitzero"`
	Actor        *actor       `json:"act,omitempty"` // RFC 8693 4.1

	AuthorizationDetails json.RawMessage `json:"authorization_details,omitempty"` // RFC 9396 9.1
}

// signAccess returns an access token as a JWT, and the key of its record. The
// record decides about validity: the JWT alone opens nothing here, so it can be revoked, limited and counted like any
// other token.
func (l *Ledger) signAccess(c *client.Client, rec *Access) (token, key string, err error) {
	id, err := secret.ID(l.deps.Random, 32)
	if err != nil {
		return "", "", err
	}
	claims := accessClaims{
		Issuer: l.issuer, Expires: rec.ExpiresAt.Unix(), Audience: rec.Audience, Subject: l.SubjectFor(c, rec.Subject), ClientID: c.ID,
		IssuedAt: rec.CreatedAt.Unix(), ID: id, Scope: strings.Join(rec.Scope, " "), ACR: ACR(rec.Level), CID: c.ID, UsageLimit: rec.UsageLimit,
		Confirmation: rec.Confirmation, Actor: l.actorClaim(c.Sector(), rec.Actors),
		AuthorizationDetails: json.RawMessage(rec.AuthorizationDetails),
	}
	if len(claims.Audience) == 0 {
		claims.Audience = []string{l.issuer} // RFC 9068 3: a default resource indicator
	}
	if rec.Subject == "" {
		claims.Subject = c.ID // RFC 9068 2.2: the client of a token without a person
	} else {
		claims.AuthTime, claims.AMR = rec.AuthTime.Unix(),
			methodReferences(SignIn{AMR: rec.AMR, Provider: rec.Provider, References: rec.References})
	}
	token, err = l.deps.Keys.Sign(cmp.Or(c.AccessTokenAlg, c.IDTokenAlg), keys.TypeAccessToken, claims)
	return token, jwtKey(id), err
}

// jwtKey is the key of the record of a JWT. It differs from the key of any opaque token, since those begin with a
// prefix.
func jwtKey(id string) string { return secret.Hash("jti " + id) }

// AccessKey returns the key of the record of an access token, without a storage read. It is false for other text, such
// as an ID token, which has another typ (RFC 9068 4).
func (l *Ledger) AccessKey(token string) (string, bool) {
	if secret.IsToken(secret.AccessToken, token) {
		return secret.Hash(token), true
	}
	if strings.Count(token, ".") != 2 || len(token) > maxToken {
		return "", false
	}
	now, question, version := l.now(), depcache.KeyOf(aboutJWT, token), l.deps.Keys.Version()
	if j, ok := l.jwts.Find(question, now); ok && j.version == version {
		return j.key, true
	}
	payload, err := l.deps.Keys.Verify(token, keys.TypeAccessToken)
	if err != nil {
		return "", false
	}
	var claims struct {
		Issuer  string `json:"iss"`
		ID      string `json:"jti"`
		Expires int64  `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Issuer != l.issuer || claims.ID == "" {
		return "", false
	}
	key := jwtKey(claims.ID)
	l.jwts.Keep(question, jwt{key, version}, time.Unix(claims.Expires, 0), now)
	return key, true
}

// jwt is the cached data of a JWT with a verified signature: the key of its record, and the set of signing keys.
type jwt struct {
	key     string
	version uint64
}
