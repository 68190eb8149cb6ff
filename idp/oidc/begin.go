package oidc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const maxHint = 256 // characters

// flow is the state of a sign-in until the browser returns.
type flow struct {
	Provider string    `json:"provider"`
	Issuer   string    `json:"issuer"`
	Client   string    `json:"client"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // PKCE
	Redirect string    `json:"redirect"`
	Began    time.Time `json:"began"`
	Fresh    bool      `json:"fresh,omitempty"`   // the person had to authenticate again
	MaxAge   *int64    `json:"max_age,omitempty"` // seconds
	Passive  bool      `json:"passive,omitempty"`
}

// Begin implements idp.Redirector: an authorization request. (OpenID Connect Core 3.1.2.1)
func (p *Provider) Begin(ctx context.Context, q idp.Request) (*idp.Next, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if err := p.cfg.refuses(q); err != nil {
		return nil, err
	}
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	f := flow{
		Provider: p.env.ID, Issuer: p.cfg.Issuer, Client: p.cfg.ClientID, Redirect: p.endpointURL("callback"), Began: p.env.Now(),
		Fresh: q.Force && !q.Passive, Passive: q.Passive,
	}
	if f.Nonce, err = secret.ID(p.env.Random, 32); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	if f.Verifier, err = secret.ID(p.env.Random, 32); err != nil {
		return nil, fmt.Errorf("make a verifier: %w", err)
	}
	if age := q.MaxAge; f.Fresh {
		f.MaxAge = new(int64)
	} else if age >= 0 {
		seconds := int64(age / time.Second)
		f.MaxAge = &seconds
	}
	state, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("keep the flow: %w", err)
	}
	u, err := url.Parse(m.AuthorizationURL)
	if err != nil {
		return nil, fmt.Errorf("authorization endpoint: %w", err)
	}
	u.RawQuery = p.parameters(u.Query(), f, q).Encode()
	return &idp.Next{URL: u.String(), State: state}, nil
}

// parameters adds the request's parameters to those in the endpoint's own query.
func (p *Provider) parameters(v url.Values, f flow, q idp.Request) url.Values {
	v.Set("response_type", "code")
	v.Set("client_id", p.cfg.ClientID)
	v.Set("redirect_uri", f.Redirect)
	v.Set("scope", strings.Join(p.cfg.Scopes, " "))
	v.Set("state", q.Flow)
	v.Set("nonce", f.Nonce)
	v.Set("code_challenge", oauth2.S256ChallengeFromVerifier(f.Verifier)) // RFC 7636 4.2
	v.Set("code_challenge_method", "S256")
	if p.cfg.ResponseMode != "query" {
		v.Set("response_mode", p.cfg.ResponseMode)
	}
	switch {
	case f.Passive:
		v.Set("prompt", "none")
	case f.Fresh:
		v.Set("prompt", "login")
	}
	if f.MaxAge != nil {
		v.Set("max_age", strconv.FormatInt(*f.MaxAge, 10))
	}
	if q.Hint != "" && idp.IsText(q.Hint, maxHint) {
		v.Set("login_hint", q.Hint)
	}
	if len(q.Locales) > 0 {
		v.Set("ui_locales", strings.Join(q.Locales, " "))
	}
	if acr := p.sufficient(q.Level); len(acr) > 0 {
		v.Set("acr_values", strings.Join(acr, " "))
	}
	if len(p.cfg.Claims) > 0 {
		v.Set("claims", string(p.cfg.Claims))
	}
	p.cfg.presetParameters(v)
	return v
}

// sufficient returns the acr values that reach a level, the lowest first because the provider takes them in order of
// preference. It returns none if every sign-in at the provider reaches the level.
func (p *Provider) sufficient(level int) (acr []string) {
	if level <= p.cfg.Level {
		return nil
	}
	for _, a := range slices.Sorted(maps.Keys(p.cfg.Levels)) {
		if p.cfg.Levels[a] >= level {
			acr = append(acr, a)
		}
	}
	slices.SortStableFunc(acr, func(a, b string) int { return cmp.Compare(p.cfg.Levels[a], p.cfg.Levels[b]) })
	return acr
}
