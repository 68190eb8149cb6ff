package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

	maxLogoutLife = 24 * time.Hour // how far in the future exp of a logout token can be
	maxAddressOut = 7 << 10        // bytes of an address that every server accepts
)

// End implements idp.Ender: the browser signs out at the provider too. (OpenID Connect RP-Initiated Logout 2) It uses a
// redirect, because the provider's cookies are not sent with a form from our origin.
func (p *Provider) End(ctx context.Context, q idp.EndRequest) (*idp.Next, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var h heldData
	if err := json.Unmarshal(q.Held, &h); err != nil || !p.isFrom(h) {
		return nil, nil //nolint:nilnil // the provider knows nothing of the session, so there is nothing to do
	}
	m, err := p.currentMetadata(ctx)
	if err != nil || m.EndSessionURL == "" {
		return nil, err
	}
	u, err := url.Parse(m.EndSessionURL)
	if err != nil {
		return nil, fmt.Errorf("end session endpoint: %w", err)
	}
	v := u.Query()
	v.Set("client_id", p.cfg.ClientID)
	v.Set("post_logout_redirect_uri", p.endpointURL("signed-out"))
	v.Set("state", q.Flow)
	if len(q.Locales) > 0 {
		v.Set("ui_locales", strings.Join(q.Locales, " "))
	}
	if h.ID != "" && len(h.ID) < maxAddressOut {
		v.Set("id_token_hint", h.ID)
	}
	u.RawQuery = v.Encode()
	return &idp.Next{URL: u.String()}, nil
}

// logoutToken is a verified logout token.
type logoutToken struct{ issuer, id, subject, session string }

// verifyLogout checks a logout token. (OpenID Connect Back-Channel Logout 2.6) Its errors are those of verifyIDToken,
// and idp.ErrReplayed.
func (p *Provider) verifyLogout(ctx context.Context, raw string) (*logoutToken, error) {
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	if raw, err = p.open(ctx, raw, false); err != nil {
		return nil, invalidUnlessLocal("logout token", err)
	}
	// RFC 8725 3.11
	if typ := typeOf(raw); typ != "" && typ != "jwt" && typ != "logout+jwt" && typ != "application/logout+jwt" {
		return nil, &idp.Invalid{Reason: "the logout token is another kind of token"}
	}
	keys := &verifier{p: p, m: m}
	checked, err := oidc.NewVerifier(p.cfg.Issuer, keys, p.rules(m)).VerifyLogout(ctx, raw)
	if keys.err != nil {
		return nil, keys.err
	}
	if err != nil {
		return nil, &idp.Invalid{Reason: "the logout token does not hold: " + reasonOf(err)}
	}
	var payload rawClaims
	if err := checked.Claims(&payload); err != nil {
		return nil, &idp.Invalid{Reason: "the logout token cannot be read"}
	}
	claims, err := providerhttp.ReadObject(payload)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the logout token cannot be read", Cause: err}
	}
	issuer, err := p.judge(m, claims)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the logout token does not hold", Cause: err}
	}
	t, expires, err := readLogout(claims, p.env.Now())
	if err != nil {
		return nil, &idp.Invalid{Reason: "the logout token does not hold", Cause: err}
	}
	t.issuer = issuer
	if err := p.env.Once(ctx, "logout "+fmt.Sprintf("%x", secret.Hash(t.id)), expires.Add(skew)); err != nil {
		return nil, fmt.Errorf("mark the logout token: %w", err)
	}
	return t, nil
}

// readLogout checks the claims that only logout tokens have, in their exact spelling.
func readLogout(claims object, now time.Time) (*logoutToken, time.Time, error) {
	var t logoutToken
	for name, into := range map[string]*string{"jti": &t.id, "sub": &t.subject, "sid": &t.session} {
		var err error
		if *into, err = claims.Text(name); err != nil || !idp.IsText(*into, idp.MaxSubject) {
			return nil, now, fmt.Errorf("%s is not a name", name)
		}
	}
	events, _ := claims["events"].(map[string]any)
	_, isLogout := events[logoutEvent].(map[string]any)
	expires, err := claims.Moment("exp")
	_, hasNonce := claims["nonce"]
	switch {
	case t.id == "":
		return nil, now, errors.New("jti is missing")
	case t.subject == "" && t.session == "":
		return nil, now, errors.New("sub and sid are missing")
	case !isLogout:
		return nil, now, errors.New("events is not a logout")
	case hasNonce:
		return nil, now, errors.New("it has a nonce, as ID tokens do")
	case err != nil || expires.After(now.Add(maxLogoutLife)):
		return nil, now, errors.New("exp is too far ahead")
	}
	return &t, expires, nil
}

// handleBackChannel serves POST /oidc/<id>/backchannel-logout. (OpenID Connect Back-Channel Logout 2.5 to 2.8)
func (p *Provider) handleBackChannel(w http.ResponseWriter, r *http.Request, h idp.Host) {
	if r.Method != http.MethodPost {
		methodNotAllowed(w, http.MethodPost)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Timeout)
	defer cancel()
	err := r.ParseForm()
	if err != nil || len(r.PostForm["logout_token"]) != 1 || r.URL.RawQuery != "" {
		p.answerLogout(w, &idp.Invalid{Reason: "no logout token, or several"})
		return
	}
	t, err := p.verifyLogout(ctx, r.PostForm.Get("logout_token"))
	if err == nil {
		q := idp.EndQuery{Issuer: t.issuer, Subject: t.subject}
		if t.session != "" {
			q.Sessions = []string{t.session}
		}
		_, err = h.EndSessions(ctx, q, r)
	}
	p.answerLogout(w, err)
}
