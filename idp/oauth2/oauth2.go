// Package oauth2 signs people in at providers of OAuth 2.0 without OpenID Connect, by the authorization code flow with
// PKCE, and reads their profile with the access token. It has presets for GitHub, Discord, Facebook, LinkedIn and X.
//
// The access token is kept sealed with its session, to read the profile again while it is valid. No such provider tells
// when or how a person signed in, so a sign-in that must be fresh is refused. (RFC 6749, RFC 7636, RFC 9207, RFC 9700)
package oauth2

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	maxToken = 32 << 10 // bytes of an access token
	maxHeld  = 16 << 10 // bytes of one that is kept
	maxEmail = 254      // characters (RFC 5321 4.5.3.1.3)
)

// Provider signs people in at one provider. It implements idp.Redirector, Checker and Refresher.
type Provider struct {
	cfg     Config
	env     idp.Env
	mapping *idp.WatchedMapping
	calls   *providerhttp.Caller
}

var (
	_ idp.Redirector = (*Provider)(nil)
	_ idp.Checker    = (*Provider)(nil)
	_ idp.Refresher  = (*Provider)(nil)
)

// New returns a provider, or an error that lists everything wrong with the configuration. It makes no connections.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if env.ID == "" || env.Issuer == "" || env.Now == nil || env.Random == nil || env.Client == nil || env.Checked == nil || env.Once == nil {
		return nil, errors.New("oauth2: the environment is incomplete")
	}
	cfg = cfg.withDefaults()
	return &Provider{cfg: cfg, env: env, mapping: idp.Watch(cfg.Mapping), calls: providerhttp.New(env, cfg.hosts())}, nil
}

// Unseen implements idp.Watcher.
func (p *Provider) Unseen() []idp.Warning { return p.mapping.Unseen() }

// Parameters implements idp.Provider: no parameters are copied.
func (p *Provider) Parameters() []string { return nil }

// Check implements idp.Checker: the address of the profile must answer, and the token endpoint must know us. Without a
// token the profile is refused with 401 or 403.
func (p *Provider) Check(ctx context.Context) (steps idp.Steps) {
	_, status, err := p.profile(ctx, p.cfg.ProfileURL, "")
	if err != nil && !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest}, status) {
		steps.Fail("profile", err, "")
	} else {
		steps.OK("profile", "%s answers", p.cfg.ProfileURL)
	}
	p.checkClient(ctx, &steps)
	steps.OK("redirect URI", "register %s at the provider", p.redirect())
	return steps
}

// redirect returns the address to which browsers return.
func (p *Provider) redirect() string { return p.env.Issuer + "/oidc/" + p.env.ID + "/callback" }

// flow is the state of a sign-in until the browser returns.
type flow struct {
	Provider string `json:"provider"`
	Issuer   string `json:"issuer"`
	Client   string `json:"client"`
	Flow     string `json:"flow"`     // state
	Verifier string `json:"verifier"` // PKCE
	Redirect string `json:"redirect"`
}

// Begin implements idp.Redirector: an authorization request. (RFC 6749 4.1.1)
func (p *Provider) Begin(_ context.Context, q idp.Request) (*idp.Next, error) {
	switch {
	case q.Passive:
		return nil, &idp.Rejection{Reason: "the provider cannot sign people in without a page", Passive: true}
	case q.Force || q.MaxAge >= 0:
		return nil, &idp.Rejection{Reason: "the provider does not say when a person signed in"}
	}
	verifier, err := secret.ID(p.env.Random, 32)
	if err != nil {
		return nil, fmt.Errorf("make a verifier: %w", err)
	}
	f := flow{
		Provider: p.env.ID, Issuer: p.cfg.Issuer, Client: p.cfg.ClientID, Flow: q.Flow, Verifier: verifier,
		Redirect: p.redirect(),
	}
	state, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("keep the flow: %w", err)
	}
	u, err := url.Parse(p.cfg.AuthorizationURL)
	if err != nil {
		return nil, fmt.Errorf("authorization endpoint: %w", err)
	}
	v := u.Query()
	v.Set("response_type", "code")
	v.Set("client_id", p.cfg.ClientID)
	v.Set("redirect_uri", f.Redirect)
	v.Set("state", q.Flow)
	v.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier)) // RFC 7636 4.2; who does not know it ignores it
	v.Set("code_challenge_method", "S256")
	if len(p.cfg.Scopes) > 0 {
		v.Set("scope", strings.Join(p.cfg.Scopes, " "))
	}
	u.RawQuery = v.Encode()
	return &idp.Next{URL: u.String(), State: state}, nil
}

// FlowOf implements idp.Redirector: state.
func (p *Provider) FlowOf(r *http.Request) (string, error) {
	v, err := parametersOf(r)
	if err != nil {
		return "", err
	}
	return providerhttp.State(v)
}

func parametersOf(r *http.Request) (url.Values, error) {
	if r.Method != http.MethodGet {
		return nil, &idp.Invalid{Reason: "the answer came by another method than was asked for"}
	}
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the answer cannot be read"}
	}
	return v, nil
}

// Finish implements idp.Redirector.
func (p *Provider) Finish(ctx context.Context, state []byte, r *http.Request) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if state == nil {
		return nil, &idp.Invalid{Reason: "an answer without a request"}
	}
	var f flow
	if err := json.Unmarshal(state, &f); err != nil {
		return nil, &idp.Invalid{Reason: "the flow cannot be read"}
	}
	if f.Provider != p.env.ID || f.Issuer != p.cfg.Issuer || f.Client != p.cfg.ClientID {
		return nil, &idp.Invalid{Reason: "the flow belongs to another provider"}
	}
	code, err := p.readResponse(r, &f)
	if err != nil {
		return nil, err
	}
	h := heldData{Issuer: p.cfg.Issuer, Client: p.cfg.ClientID}
	if h.Access, h.Until, err = p.redeem(ctx, &f, code); err != nil {
		return nil, err
	}
	return p.read(ctx, h)
}

// heldData is the data that Refresh needs. identity seals it.
type heldData struct {
	Issuer string    `json:"iss"` // the issuer, and our client id there: a token is never given to another provider
	Client string    `json:"client"`
	Access string    `json:"access_token"`
	Until  time.Time `json:"until,omitzero"` // zero: it is not known
}

// read returns the person of an access token.
func (p *Provider) read(ctx context.Context, h heldData) (*idp.Identity, error) {
	profile, _, err := p.profile(ctx, p.cfg.ProfileURL, h.Access)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	out, err := p.identity(ctx, profile, h.Access)
	if err != nil || len(h.Access) > maxHeld {
		return out, err
	}
	out.Held, err = json.Marshal(h)
	return out, err
}

// Refresh implements idp.Refresher with the access token of the sign-in, while it lives.
func (p *Provider) Refresh(ctx context.Context, held []byte) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	var h heldData
	if err := json.Unmarshal(held, &h); err != nil {
		return nil, fmt.Errorf("the stored data cannot be read: %w", err)
	}
	if h.Issuer != p.cfg.Issuer || h.Client != p.cfg.ClientID {
		return nil, &idp.Rejection{Reason: "the person signed in at another provider, before the configuration changed"}
	}
	if !h.Until.IsZero() && !p.env.Now().Before(h.Until) {
		return nil, errors.New("the access token of the sign-in has ended")
	}
	return p.read(ctx, h)
}

// readResponse returns the code of an authorization response. (RFC 6749 4.1.2)
func (p *Provider) readResponse(r *http.Request, f *flow) (code string, err error) {
	v, err := parametersOf(r)
	if err != nil {
		return "", err
	}
	var given, failure, iss string
	for name, into := range map[string]*string{"code": &code, "state": &given, "error": &failure, "iss": &iss} {
		if *into, err = providerhttp.One(v, name); err != nil {
			return "", err
		}
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(given), []byte(f.Flow)) != 1:
		return "", &idp.Invalid{Reason: "the answer is to another sign-in (state)"}
	case iss != "" && p.cfg.answersAs != "" && iss != p.cfg.answersAs: // RFC 9207 2.4
		return "", &idp.Invalid{Reason: "the answer is not from the provider that was asked (iss)"}
	case v.Has("access_token"): // it was not asked for: it would be another way in (RFC 9700 2.1.2)
		return "", &idp.Invalid{Reason: "the answer carries a token"}
	case (code == "") == (failure == "") || len(code) > providerhttp.MaxCode:
		return "", &idp.Invalid{Reason: "the answer is neither a code nor an error"}
	case failure == "":
		return code, nil
	}
	stopped := providerhttp.Stopped(failure)
	if !stopped && !slices.Contains([]string{"server_error", "temporarily_unavailable", "invalid_scope", "unauthorized_client"}, failure) {
		failure = "an error"
	}
	return "", &idp.Rejection{Reason: "the provider answers " + failure, Cancelled: stopped}
}
