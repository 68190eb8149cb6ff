package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

const mediaJWT = "application/jwt"

// userInfo returns the claims of the UserInfo endpoint; nil if there is no such endpoint. An empty subject is not known
// yet. (OpenID Connect Core 5.3)
func (p *Provider) userInfo(ctx context.Context, m *metadata, access, subject string) (object, error) {
	if m.UserInfoURL == "" {
		if p.cfg.UserInfoEncryptionRequired {
			return nil, &idp.Misconfigured{Cause: errors.New("userinfo: it must be encrypted, and the provider has none")}
		}
		return nil, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.UserInfoURL, nil)
	if err != nil {
		return nil, errors.New("userinfo: not an address")
	}
	req.Header.Set("Authorization", "Bearer "+access) // RFC 6750 2.1: never in the address
	a, err := p.calls.Ask(ctx, req, "application/json", mediaJWT)
	if err != nil {
		return nil, fmt.Errorf("userinfo: %w", err)
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("userinfo: status %d", a.Status)
	}
	var info object
	if p.cfg.UserInfoEncryptionRequired && p.cfg.Preset != Itsme && a.Media != mediaJWT {
		return nil, &idp.Invalid{Reason: "userinfo is not encrypted"}
	}
	if a.Media == mediaJWT || p.cfg.Preset == Itsme { // itsme may call its JWT application/json
		info, err = p.openUserInfo(ctx, m, strings.TrimSpace(string(a.Body)))
	} else if info, err = providerhttp.ReadObject(a.Body); err != nil {
		err = &idp.Invalid{Reason: "userinfo cannot be read", Cause: err}
	}
	if err != nil {
		return nil, err
	}
	// OpenID Connect Core 5.3.2: another sub means the data of another person
	if sub, err := info.Text("sub"); err != nil || subject != "" && sub != subject {
		return nil, &idp.Invalid{Reason: "userinfo is of another person (sub)"}
	}
	return info, nil
}

// openUserInfo reads a signed, an encrypted, or a signed and encrypted answer. (OpenID Connect Core 5.3.2)
func (p *Provider) openUserInfo(ctx context.Context, m *metadata, raw string) (object, error) {
	const what = "userinfo"
	if len(raw) > maxToken {
		return nil, &idp.Invalid{Reason: "userinfo is too long"}
	}
	if strings.Count(raw, ".") == 4 {
		plain, err := p.decrypt(ctx, raw)
		if err != nil {
			return nil, invalidUnlessLocal(what, err)
		}
		raw = string(plain)
		// only encrypted: it came in answer to our own request, over TLS
		if strings.HasPrefix(strings.TrimSpace(raw), "{") {
			info, err := providerhttp.ReadObject(plain)
			if err != nil {
				return nil, &idp.Invalid{Reason: "userinfo cannot be read", Cause: err}
			}
			return info, nil
		}
	} else if p.cfg.UserInfoEncryptionRequired {
		return nil, &idp.Invalid{Reason: "userinfo is not encrypted"}
	}
	if _, err := jose.ParseSignedCompact(raw, m.algs); err != nil {
		return nil, &idp.Invalid{Reason: "userinfo cannot be read", Cause: errUnsigned}
	}
	keys := &verifier{p: p, m: m}
	payload, err := keys.VerifySignature(ctx, raw)
	if keys.err != nil {
		return nil, keys.err
	}
	if err != nil {
		return nil, &idp.Invalid{Reason: "userinfo does not hold", Cause: err}
	}
	info, err := providerhttp.ReadObject(payload)
	if err != nil {
		return nil, &idp.Invalid{Reason: "userinfo cannot be read", Cause: err}
	}
	// If signed, iss and aud should be present: the provider and us (OpenID Connect Core 5.3.2). If present, they must
	// match.
	iss, err := info.Text("iss")
	if err != nil || (iss != "" && !p.cfg.isIssuer(iss)) {
		return nil, &idp.Invalid{Reason: "userinfo is from another issuer (iss)"}
	}
	aud, err := info.Texts("aud")
	if err != nil || (len(aud) > 0 && !slices.Contains(aud, p.cfg.ClientID)) {
		return nil, &idp.Invalid{Reason: "userinfo is for another client (aud)"}
	}
	return info, nil
}

// fixed are claims of the ID token that userinfo must not overwrite: they describe the sign-in and the token.
var fixed = []string{
	"iss", "sub", "aud", "azp", "exp", "iat", "nbf", "jti", "nonce", "acr", "amr", "auth_time", "sid", "at_hash", "c_hash", "s_hash", "events",
}

// pairs are a claim and its verification flag. They come from one source or not at all, so proof of one address never
// counts for another.
var pairs = map[string]string{"email": "email_verified", "phone_number": "phone_number_verified"}

// merge adds userinfo to the claims of the ID token.
func merge(id, info object) object {
	out := object{}
	for name, v := range id {
		out[name] = v
	}
	for value, proof := range pairs {
		if info[value] != nil || info[proof] != nil {
			delete(out, value)
			delete(out, proof)
		}
	}
	for name, v := range info {
		if !slices.Contains(fixed, name) {
			out[name] = v
		}
	}
	return out
}
