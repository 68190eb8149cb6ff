package oidc

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

// Handle implements idp.Handler.
func (p *Provider) Handle(w http.ResponseWriter, r *http.Request, op string, h idp.Host) bool {
	switch {
	case op == "signed-out":
		p.handleSignedOut(w, r, h)
	case op == "backchannel-logout":
		p.handleBackChannel(w, r, h)
	case op == "frontchannel-logout" && p.cfg.FrontChannelLogout:
		p.handleFrontChannel(w, r, h)
	case op == "jwks" && p.hasKeys():
		p.handleKeys(w, r)
	default:
		return false
	}
	return true
}

// answerLogout writes the answer to a logout token. (OpenID Connect Back-Channel Logout 2.8)
func (p *Provider) answerLogout(w http.ResponseWriter, err error) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	status, code := http.StatusServiceUnavailable, "temporarily_unavailable"
	if invalid := new(idp.Invalid); errors.As(err, &invalid) || errors.Is(err, idp.ErrReplayed) {
		status, code = http.StatusBadRequest, "invalid_request"
	} else {
		ratelimit.RetryAfter(w, ratelimit.Soon)
	}
	p.env.Log.Info("logout token refused", zap.String("provider", p.env.ID), zap.Int("status", status), zap.Error(err))
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	raw, err := json.Marshal(map[string]string{"error": code})
	if err == nil {
		w.Write(raw)
	}
}

// handleFrontChannel serves GET /oidc/<id>/frontchannel-logout, which the provider loads in a frame. (OpenID Connect
// Front-Channel Logout 2) It ends the session that sid names. sid is required, because it is secret; without it, any
// site could sign a person out.
func (p *Provider) handleFrontChannel(w http.ResponseWriter, r *http.Request, h idp.Host) {
	if r.Method != http.MethodGet {
		methodNotAllowed(w, http.MethodGet)
		return
	}
	hd := w.Header()
	hd.Set("Cache-Control", "no-store")
	hd.Set("X-Content-Type-Options", "nosniff")
	hd.Set("Referrer-Policy", "no-referrer")
	hd.Del("X-Frame-Options") // only the provider's page can frame it
	hd.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors "+origin(p.cfg.Issuer))
	hd.Set("Content-Type", "text/html; charset=utf-8")
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(v["iss"]) != 1 || len(v["sid"]) != 1 || !p.cfg.isIssuer(v.Get("iss")) || v.Get("sid") == "" ||
		!idp.IsText(v.Get("sid"), maxSession) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, err := h.EndSessions(r.Context(), idp.EndQuery{Issuer: v.Get("iss"), Sessions: []string{v.Get("sid")}}, r); err != nil {
		p.env.Log.Error("front-channel logout failed", zap.String("provider", p.env.ID), zap.Error(err))
		ratelimit.RetryAfter(w, ratelimit.Soon)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// handleSignedOut serves GET /oidc/<id>/signed-out: the browser returns from End.
func (p *Provider) handleSignedOut(w http.ResponseWriter, r *http.Request, h idp.Host) {
	if r.Method != http.MethodGet {
		methodNotAllowed(w, http.MethodGet)
		return
	}
	v, err := url.ParseQuery(r.URL.RawQuery)
	state := ""
	if err == nil {
		state, err = providerhttp.One(v, "state")
	}
	if err != nil || len(state) > providerhttp.MaxFlow {
		h.Fail(w, r, &idp.Invalid{Reason: "the answer to a sign-out cannot be read"})
		return
	}
	_, ret, err := h.Ended(w, r, state)
	switch {
	case errors.Is(err, idp.ErrNoFlow) || (err == nil && ret == ""):
		ret = h.Home()
	case err != nil:
		h.Fail(w, r, err)
		return
	}
	h.Go(w, r, &idp.Next{URL: ret})
}

// hasKeys reports whether the provider needs our keys.
func (p *Provider) hasKeys() bool { return p.cfg.AuthMethod == AuthPrivateKey || p.encrypts }

// handleKeys serves GET /oidc/<id>/jwks: the public keys with which the provider verifies our assertions and encrypts
// for us.
func (p *Provider) handleKeys(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		methodNotAllowed(w, "GET, HEAD")
		return
	}
	set, err := p.publicKeys(r)
	raw, marshalErr := json.Marshal(set)
	if err = errors.Join(err, marshalErr); err != nil {
		p.env.Log.Error("our keys cannot be published", zap.String("provider", p.env.ID), zap.Error(err))
		ratelimit.RetryAfter(w, ratelimit.Soon)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(raw)
}

func (p *Provider) publicKeys(r *http.Request) (jwa.KeySet, error) {
	set := jwa.KeySet{Keys: []jose.JSONWebKey{}}
	add := func(name, use, id string) error {
		pair, err := p.env.KeyPair(r.Context(), name)
		if err != nil {
			return err
		}
		for i, key := range pair.All() {
			if id == "" || i > 0 {
				if id, err = thumbprint(key.Signer.Public()); err != nil {
					return err
				}
				if use == "enc" { // the same key needs another name for its other use
					id += ".enc"
				}
			}
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Signer.Public(), KeyID: id, Use: use})
		}
		return nil
	}
	if p.cfg.AuthMethod == AuthPrivateKey {
		if err := add(p.cfg.Key, "sig", p.cfg.KeyID); err != nil {
			return set, err
		}
	}
	for _, name := range p.cfg.Decrypt {
		if !p.encrypts {
			break
		}
		if err := add(name, "enc", ""); err != nil {
			return set, err
		}
	}
	return set, nil
}

func methodNotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "'none'"
	}
	return u.Scheme + "://" + u.Host
}
