package token

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jwtresponse"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// idTokenLifetime is the validity of an ID token: long enough for a client to read it and to pass it to its own parts.
const idTokenLifetime = time.Hour

// acrPrefix and a level from 1 to 4 make an acr value. (docs/decisions/levels.md#authentication-levels)
const acrPrefix = "urn:gatehouse:level:"

// idTokenClaims are the claims of OpenID Connect Core 2.
type idTokenClaims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	IssuedAt int64    `json:"iat"`
	AuthTime int64    `json:"auth_time"`
	Nonce    string   `json:"nonce,omitempty"`
	ACR      string   `json:"acr,omitempty"`
	AMR      []string `json:"amr,omitempty"`
	AZP      string   `json:"azp"`
	ATHash   string   `json:"at_hash,omitempty"`
	Session  string   `json:"sid,omitempty"` // OpenID Connect Back-Channel Logout 2.1
}

// IDToken is the content of an ID token.
type IDToken struct {
	Client  *client.Client
	SignIn  SignIn
	Subject authn.Subject
	Nonce   string
	Scope   []string
	Asked   ClaimsRequest
	Access  string // the access token that is issued with it; "": none
}

// SignIDToken returns a signed ID token, encrypted if the client asks for that. Of the person it names the subject and
// the claims that the claims parameter asked for; the userinfo endpoint has the rest. The claims of the scopes are in
// the ID token too if the client wants them there, or if no access token comes with it that could ask the userinfo
// endpoint (OpenID Connect Core 5.4).
func (l *Ledger) SignIDToken(ctx context.Context, t IDToken, now time.Time) (string, error) {
	c, alg := t.Client, t.algorithm()
	claims, err := l.idTokenOf(ctx, t, now)
	if err != nil {
		return "", err
	}
	signed, err := l.deps.Keys.Sign(alg, keys.TypeIDToken, claims)
	if err != nil {
		return "", err
	}
	return jwtresponse.Encrypt(ctx, l.deps.Clients, c, c.IDTokenEncryption(), signed)
}

// algorithm is the one that the token is signed with.
func (t *IDToken) algorithm() string { return cmp.Or(t.Client.IDTokenAlg, string(keys.Algorithms[0])) }

// idTokenOf returns what an ID token says.
func (l *Ledger) idTokenOf(ctx context.Context, t IDToken, now time.Time) (joinedClaims, error) {
	c, si := t.Client, t.SignIn
	claims := idTokenClaims{
		Issuer: l.issuer, Subject: l.SubjectFor(c, t.Subject.ID), Audience: c.ID, Expires: now.Add(idTokenLifetime).Unix(), IssuedAt: now.Unix(),
		AuthTime: si.AuthTime.Unix(), Nonce: t.Nonce, ACR: ACR(si.Level), AMR: methodReferences(si), AZP: c.ID, Session: si.SessionID,
	}
	if t.Access != "" {
		claims.ATHash = jwa.TokenHash(t.algorithm(), t.Access)
	}
	names := l.deps.Clients.StillClaimed(c, t.Asked.IDToken, &t.Subject, now)
	if c.IDTokenClaims || t.Access == "" {
		names = append(names, client.ClaimsOf(t.Scope)...)
	}
	if len(names) == 0 && t.Asked.VerifiedIDToken == "" {
		return joinedClaims{claims, nil}, nil
	}
	person, err := l.PersonClaims(ctx, &t.Subject, names)
	if err == nil {
		err = l.AddVerified(ctx, person, t.Asked.VerifiedIDToken, c, &t.Subject, now)
	}
	return joinedClaims{claims, person}, err
}

// PreviewIDToken returns what an ID token would say, as JSON. Nothing is signed.
func (l *Ledger) PreviewIDToken(ctx context.Context, t IDToken, now time.Time) ([]byte, error) {
	claims, err := l.idTokenOf(ctx, t, now)
	if err != nil {
		return nil, err
	}
	return claims.MarshalJSON()
}

// joinedClaims are the claims of an ID token and those of the person, which have other names.
type joinedClaims struct {
	token  idTokenClaims
	person map[string]any
}

// MarshalJSON writes one object.
func (j joinedClaims) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(j.token)
	if err != nil || len(j.person) == 0 {
		return raw, err
	}
	more, err := json.Marshal(j.person)
	if err != nil {
		return nil, err
	}
	return append(append(raw[:len(raw)-1], ','), more[1:]...), nil
}

// ACR writes an authentication level, or "" for 0.
func ACR(level int) string {
	if level <= 0 {
		return ""
	}
	return acrPrefix + strconv.Itoa(level)
}

// ACRLevel reads an authentication level, or returns 0.
func ACRLevel(value string) int {
	rest, ours := strings.CutPrefix(value, acrPrefix)
	if !ours || len(rest) != 1 || rest[0] < '1' || rest[0] > '4' {
		return 0
	}
	return int(rest[0] - '0')
}

// methodReferences translates the words of the token server document into those of RFC 8176. Words without a value
// there are left out.
func methodReferences(si SignIn) []string {
	var out []string
	for _, word := range si.AMR {
		switch {
		case word == "FINGER_PRINT":
			// A passkey that has verified its owner. It is unknown whether its key is in hardware (hwk) and how it
			// verified the owner (fpt, pin).
			out = append(out, "pop", "user", "mfa")
		case word == "DEFAULT" && (si.Provider == "" || si.Provider == client.DefaultProvider):
			out = append(out, "pwd")
		}
	}
	for _, ref := range si.References {
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	// Something one knows and something one has. A PIN and a password are of the same kind. (RFC 8176 2, "mfa")
	if slices.Contains(out, "pwd") &&
		slices.ContainsFunc(out, func(ref string) bool { return ref == "otp" || ref == "sms" || ref == "mca" }) && !slices.Contains(out, "mfa") {
		out = append(out, "mfa")
	}
	return slices.Compact(out)
}

// HintClaims are the claims of an id_token_hint that are used.
type HintClaims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Session  string `json:"sid"`
	Expires  int64  `json:"exp"`
	ACR      string `json:"acr"`
}

// ReadIDToken reads an ID token that we issued, expired or not. (OpenID Connect Core 3.1.2.1; RP-Initiated Logout 2)
func (l *Ledger) ReadIDToken(raw string) (HintClaims, error) {
	var claims HintClaims
	payload, err := l.deps.Keys.Verify(raw, keys.TypeIDToken)
	if err != nil {
		return claims, err
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return claims, fmt.Errorf("%w: %w", keys.ErrUnverified, err)
	}
	if claims.Issuer != l.issuer || claims.Subject == "" || claims.Audience == "" {
		return claims, keys.ErrUnverified
	}
	return claims, nil
}
