package oidc

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
)

const (
	maxSession = 512      // bytes of sid
	maxHeldID  = 16 << 10 // bytes of an ID token that is kept
	maxHeldKey = 8 << 10  // bytes of a refresh or access token that is kept
	maxEmail   = 254      // characters (RFC 5321 4.5.3.1.3)
)

const claimVerified = "email_verified"

// heldData is the data that End and Refresh need. identity seals it.
type heldData struct {
	Issuer  string `json:"iss"` // the issuer, and our client id there: held data is never given to another provider
	Client  string `json:"client"`
	Subject string `json:"sub"`
	ID      string `json:"id_token,omitempty"` // in its signed form
	Refresh string `json:"refresh_token,omitempty"`
	Nonce   string `json:"nonce,omitempty"`
	// The access token, where there is no refresh token, and its end. Zero: it is not known.
	Access      string    `json:"access_token,omitempty"`
	AccessUntil time.Time `json:"access_until,omitzero"`
	Level       int       `json:"level"`
	AuthTime    time.Time `json:"auth_time,omitzero"`
	Session     string    `json:"sid,omitempty"`
	From        string    `json:"from,omitempty"` // the issuer of the ID token, where the provider has several
}

// from is the issuer that identities have.
func (h *heldData) from() string { return cmp.Or(h.From, h.Issuer) }

// isFrom reports whether the held data come from this provider. The provider of an id may have had another issuer
// before.
func (p *Provider) isFrom(h heldData) bool {
	return h.Issuer == p.cfg.Issuer && h.Client == p.cfg.ClientID
}

// identity returns the person described by a verified ID token and userinfo.
func (p *Provider) identity(id *idToken, info object, h heldData) (*idp.Identity, error) {
	h.Issuer, h.Client = p.cfg.Issuer, p.cfg.ClientID
	if id.issuer != h.Issuer {
		h.From = id.issuer
	}
	h.Subject, h.AuthTime, h.Level = id.subject, id.authTime, p.cfg.Level
	if acr, err := id.claims.Text("acr"); err == nil && p.cfg.Levels[acr] > 0 {
		h.Level = p.cfg.Levels[acr]
	}
	if sid, err := id.claims.Text("sid"); err == nil && len(sid) <= maxSession {
		h.Session = sid
	}
	if len(id.raw) <= maxHeldID {
		h.ID = id.raw
	}
	return p.describe(merge(id.claims, info), id.claims, h)
}

// detailUsername is the detail that names a new person.
const detailUsername = "username"

// describe reads the claims about the person. fromToken are those of the ID token.
func (p *Provider) describe(claims, fromToken object, h heldData) (*idp.Identity, error) {
	if len(h.Refresh) > maxHeldKey {
		h.Refresh = ""
	}
	if len(h.Access) > maxHeldKey {
		h.Access = ""
	}
	kept, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("keep what is needed later: %w", err)
	}
	verified, claimed, private := p.cfg.settleEmail(claims, fromToken)
	flat := claims.Flatten()
	if !verified && claims[claimVerified] != false {
		flat[claimVerified] = []string{} // a string must not become a detail that proves the address either
	}
	out := &idp.Identity{
		Issuer: h.from(), EmailClaimed: claimed, EmailPrivate: private, Subject: h.Subject, Level: h.Level, AuthTime: h.AuthTime,
		Details: p.mapping.Apply(flat), Held: kept,
		Form: "client " + p.cfg.ClientID, // OpenID Connect Core 8.1: a pairwise sub belongs to a client
	}
	if p.cfg.IdentifyBy != "" {
		out.Stable = idp.Single(flat[p.cfg.IdentifyBy])
	}
	// A claim names the person only where the operator maps it: people choose their preferred_username themselves.
	if names := out.Details[detailUsername]; len(names) > 0 && idp.IsText(names[0], idp.MaxSubject) {
		out.Username = names[0]
	}
	if mail, err := claims.Text("email"); err == nil && idp.IsText(mail, maxEmail) {
		if out.Email = strings.TrimSpace(mail); out.Email != "" {
			out.EmailVerified = verified
		}
	}
	if h.Session != "" {
		out.Sessions = []string{h.Session}
	}
	return out, nil
}

// Refresh implements idp.Refresher with the provider's refresh token (OpenID Connect Core 12), or with the access token
// of the sign-in while it lives.
func (p *Provider) Refresh(ctx context.Context, kept []byte) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var h heldData
	if err := json.Unmarshal(kept, &h); err != nil {
		return nil, fmt.Errorf("the stored data cannot be read: %w", err)
	}
	if !p.isFrom(h) {
		return nil, &idp.Rejection{Reason: "the person signed in at another provider, before the configuration changed"}
	}
	if h.Refresh == "" {
		return p.askAgain(ctx, h)
	}
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	given, err := p.redeem(ctx, m, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.Refresh}})
	if errors.Is(err, errGrant) {
		return nil, &idp.Rejection{Reason: "the provider does not know the refresh token any more"}
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint: %w", err)
	}
	if given.refresh != "" {
		h.Refresh = given.refresh
	}
	id, err := p.refreshed(ctx, m, h, given)
	// the old one may be used up: without the new one, no later refresh would work
	if err != nil && given.refresh != "" {
		if rotated, heldErr := p.describe(nil, nil, h); heldErr == nil {
			return &idp.Identity{Held: rotated.Held}, err
		}
	}
	return id, err
}

// askAgain asks the UserInfo endpoint with the access token of the sign-in.
func (p *Provider) askAgain(ctx context.Context, h heldData) (*idp.Identity, error) {
	if h.Access == "" || !h.AccessUntil.IsZero() && !p.env.Now().Before(h.AccessUntil) {
		return nil, errors.New("the provider gave no refresh token, and no access token that still lives: ask for a refresh token in scopes, often offline_access")
	}
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	info, err := p.userInfo(ctx, m, h.Access, h.Subject)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, errors.New("the provider has no userinfo any more")
	}
	claims := keptClaims(h.ID)
	return p.describe(merge(claims, info), claims, h)
}

func (p *Provider) refreshed(ctx context.Context, m *metadata, h heldData, given *tokens) (*idp.Identity, error) {
	claims, err := p.refreshedClaims(ctx, m, &h, given)
	if err != nil {
		return nil, err
	}
	info, err := p.userInfo(ctx, m, given.access, h.Subject)
	if err != nil {
		return nil, err
	}
	return p.describe(merge(claims, info), claims, h)
}

// refreshedClaims returns the claims of the new ID token, or of the kept one if there is no new one.
func (p *Provider) refreshedClaims(ctx context.Context, m *metadata, h *heldData, given *tokens) (object, error) {
	if given.id == "" {
		return keptClaims(h.ID), nil
	}
	id, err := p.verifyIDToken(ctx, m, given.id, given.access)
	if err != nil {
		return nil, err
	}
	nonce, err := id.claims.Text("nonce")
	switch { // OpenID Connect Core 12.2
	case id.issuer != h.from():
		return nil, &idp.Invalid{Reason: "the refreshed ID token is of another issuer (iss)"}
	case id.subject != h.Subject:
		return nil, &idp.Invalid{Reason: "the refreshed ID token is of another person (sub)"}
	case err != nil || (nonce != "" && !same(nonce, h.Nonce)):
		return nil, &idp.Invalid{Reason: "the refreshed ID token is of another sign-in (nonce)"}
	case !id.authTime.IsZero() && !id.authTime.Equal(h.AuthTime):
		return nil, &idp.Invalid{Reason: "the refreshed ID token is of another sign-in (auth_time)"}
	}
	if len(id.raw) <= maxHeldID {
		h.ID = id.raw
	}
	return id.claims, nil
}

// keptClaims reads an ID token that was verified on receipt and sealed since.
func keptClaims(raw string) object {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return object{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return object{}
	}
	claims, err := providerhttp.ReadObject(payload)
	if err != nil {
		return object{}
	}
	return claims
}
