package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

// idToken is a verified ID token: the unverified token is not used after this.
type idToken struct {
	raw      string // signed, decrypted
	claims   object
	issuer   string // as identities have it
	subject  string
	authTime time.Time // zero: not stated
}

// verifyIDToken checks an ID token as OpenID Connect Core 3.1.3.7 and RFC 8725 say, except for the nonce. Errors:
// *idp.Invalid, or any other if the keys are not available.
func (p *Provider) verifyIDToken(ctx context.Context, m *metadata, raw, access string) (*idToken, error) {
	raw, err := p.open(ctx, raw, p.cfg.IDTokenEncryptionRequired)
	if err != nil {
		return nil, invalidUnlessLocal("ID token", err)
	}
	// RFC 8725 3.11: an access token or a logout token is not an ID token
	if typ := typeOf(raw); strings.HasSuffix(typ, "+jwt") {
		return nil, &idp.Invalid{Reason: "the ID token is another kind of token"}
	}
	keys := &verifier{p: p, m: m}
	checked, err := oidc.NewVerifier(p.cfg.Issuer, keys, p.rules(m)).Verify(ctx, raw)
	if keys.err != nil {
		return nil, keys.err
	}
	if err != nil {
		return nil, &idp.Invalid{Reason: "the ID token does not hold: " + reasonOf(err)}
	}
	var payload rawClaims
	if err := checked.Claims(&payload); err != nil {
		return nil, &idp.Invalid{Reason: "the ID token cannot be read"}
	}
	claims, err := providerhttp.ReadObject(payload)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the ID token cannot be read", Cause: err}
	}
	id := &idToken{raw: raw, claims: claims}
	if id.issuer, err = p.judge(m, claims); err != nil {
		return nil, &idp.Invalid{Reason: "the ID token does not hold", Cause: err}
	}
	if id.subject, err = claims.Text("sub"); err != nil || id.subject == "" || !idp.IsText(id.subject, idp.MaxSubject) {
		return nil, &idp.Invalid{Reason: "the ID token names no person (sub)"}
	}
	if id.authTime, err = claims.Moment("auth_time"); err != nil || id.authTime.After(p.env.Now().Add(skew)) {
		return nil, &idp.Invalid{Reason: "auth_time of the ID token is not a time in the past"}
	}
	if id.authTime.IsZero() && p.cfg.Preset == Itsme {
		// itsme keeps no session: it authenticates people for each request, and the ID token is of this one. (its guide,
		// "Authorization Request")
		if id.authTime, err = claims.Moment("iat"); err != nil {
			return nil, &idp.Invalid{Reason: "iat of the ID token is not a time", Cause: err}
		}
	}
	if claims["at_hash"] != nil && access != "" { // OpenID Connect Core 3.1.3.8
		if !keys.hashes(checked, access) {
			return nil, &idp.Invalid{Reason: "the ID token belongs to another access token (at_hash)"}
		}
	}
	return id, nil
}

// rules returns the checks of go-oidc, which run before judge: the signature, aud, exp, and iss where it is one.
func (p *Provider) rules(m *metadata) *oidc.Config {
	algs := make([]string, len(m.algs))
	for i, a := range m.algs {
		algs[i] = string(a)
	}
	return &oidc.Config{ClientID: p.cfg.ClientID, SupportedSigningAlgs: algs, Now: p.env.Now, SkipIssuerCheck: p.cfg.Preset != ""}
}

// judge checks the claims that ID and logout tokens share, in their exact spelling, and returns the issuer.
func (p *Provider) judge(m *metadata, claims object) (issuer string, err error) {
	if issuer, err = p.cfg.issuerOf(claims); err != nil {
		return "", err
	}
	if p.cfg.Preset == AzureADB2C && issuer != m.issuer { // it has the id of the directory, which the configuration does not know
		return "", errIssuer
	}
	return issuer, p.judgeUse(claims)
}

// judgeUse checks for whom and when a token is.
func (p *Provider) judgeUse(claims object) error {
	aud, err := claims.Texts("aud")
	if err != nil || !slices.Contains(aud, p.cfg.ClientID) {
		return errors.New("aud is not us")
	}
	for _, a := range aud { // OpenID Connect Core 3.1.3.7, 3: every other audience must be trusted
		if a != p.cfg.ClientID && !slices.Contains(p.cfg.Audiences, a) {
			return errors.New("aud names another, untrusted client")
		}
	}
	azp, err := claims.Text("azp")
	if err != nil || (claims["azp"] != nil && azp != p.cfg.ClientID) {
		return errors.New("azp is not us")
	}
	if len(aud) > 1 && azp == "" {
		return errors.New("azp is missing although there are several audiences")
	}
	now := p.env.Now()
	iat, err := claims.Moment("iat")
	if err != nil || iat.IsZero() || iat.After(now.Add(skew)) {
		return errors.New("iat is missing or in the future")
	}
	exp, err := claims.Moment("exp")
	if err != nil || exp.IsZero() || !exp.After(now) || exp.Before(iat) {
		return errors.New("exp is missing or has passed")
	}
	if nbf, err := claims.Moment("nbf"); err != nil || nbf.After(now.Add(skew)) {
		return errors.New("nbf lies ahead")
	}
	return nil
}

// rawClaims takes the payload as it is.
type rawClaims []byte

// UnmarshalJSON implements json.Unmarshaler.
func (r *rawClaims) UnmarshalJSON(b []byte) error { *r = slices.Clone(b); return nil }

// reasonOf turns an error of go-oidc, which may contain values, into words.
func reasonOf(err error) string {
	if expired := new(oidc.TokenExpiredError); errors.As(err, &expired) {
		return "it has expired"
	}
	for _, w := range []struct{ in, say string }{
		{"different provider", "iss is another"},
		{"audience", "aud is another"},
		{"nbf", "it is not valid yet"},
		{errKey.Error(), errKey.Error()},
		{"malformed jwt", errUnsigned.Error()},
		{errUnsigned.Error(), errUnsigned.Error()},
	} {
		if strings.Contains(err.Error(), w.in) {
			return w.say
		}
	}
	return "its claims cannot be read"
}

// typeOf returns typ of a compact token in lower case. An unreadable token has none, and fails later.
func typeOf(raw string) string {
	parsed, err := jose.ParseSignedCompact(raw, signatures)
	if err != nil || len(parsed.Signatures) != 1 {
		return ""
	}
	typ, _ := parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string)
	return strings.ToLower(typ)
}

// same compares in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return a != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
