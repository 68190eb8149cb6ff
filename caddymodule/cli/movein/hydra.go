package movein

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// hydraClient is a client as Hydra lists it. (Hydra 2.3, OAuth2Client)
type hydraClient struct {
	ID           string          `json:"client_id"`
	Name         string          `json:"client_name"`
	RedirectURIs []string        `json:"redirect_uris"`
	PostLogout   []string        `json:"post_logout_redirect_uris"`
	Grants       []string        `json:"grant_types"`
	Responses    []string        `json:"response_types"`
	Scope        string          `json:"scope"`
	Audience     []string        `json:"audience"`
	Auth         string          `json:"token_endpoint_auth_method"`
	JWKSURI      string          `json:"jwks_uri"`
	JWKS         json.RawMessage `json:"jwks"`
	Origins      []string        `json:"allowed_cors_origins"`
	SubjectType  string          `json:"subject_type"`
	Backchannel  string          `json:"backchannel_logout_uri"`
	SkipConsent  bool            `json:"skip_consent"`
	Frontchannel string          `json:"frontchannel_logout_uri"`
	UserinfoAlg  string          `json:"userinfo_signed_response_alg"`
	TokenForm    string          `json:"access_token_strategy"`
	CodeLife     string          `json:"authorization_code_grant_access_token_lifespan"`
	RefreshLife  string          `json:"refresh_token_grant_refresh_token_lifespan"`
}

// hydraMembers are those that have an option or a line of their own. The last ones say when and by whom the client was
// made there.
var hydraMembers = []string{
	"client_id", "client_name", "redirect_uris", "post_logout_redirect_uris", "grant_types", "response_types", "scope", "audience",
	"token_endpoint_auth_method", "jwks_uri", "jwks",
	"allowed_cors_origins", "subject_type", "backchannel_logout_uri", "skip_consent", "frontchannel_logout_uri",
	"userinfo_signed_response_alg", "access_token_strategy",
	"authorization_code_grant_access_token_lifespan", "refresh_token_grant_refresh_token_lifespan", "client_secret",
	"backchannel_logout_session_required",
	"frontchannel_logout_session_required", "created_at", "updated_at", "registration_access_token", "registration_client_uri",
}

// Hydra reads what `hydra list oauth2-clients --format json` prints, or a list of clients alone.
func Hydra(r io.Reader) (*Clients, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 64<<20))
	if err != nil {
		return nil, err
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	var page struct {
		Items    []json.RawMessage `json:"items"`
		NextPage string            `json:"next_page_token"`
	}
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
		err = json.Unmarshal(raw, &page.Items)
	} else if err = json.Unmarshal(raw, &page); err == nil && page.Items == nil {
		page.Items = []json.RawMessage{raw} // one client, as `hydra get` prints it
	}
	if err != nil {
		return nil, fmt.Errorf("the file is not what Hydra prints: %w", err)
	}
	out := new(Clients)
	for i, raw := range page.Items {
		var h hydraClient
		err := json.Unmarshal(raw, &h)
		if out.refuses(err, h.ID, i) {
			continue
		}
		if err != nil || h.ID == "" {
			return nil, errors.New("client " + strconv.Itoa(i+1) + " of the file is not one of Hydra's")
		}
		out.hydra(&h, objectOf(raw))
	}
	if page.NextPage != "" {
		out.about("the list", "is not the last page: list the next ones with --page-token, too")
	}
	return out, nil
}

// lifetime takes a duration over.
func (c *Clients) lifetime(id, name, v string, to *caddyfileutil.Duration) {
	switch d, err := time.ParseDuration(v); {
	case v == "":
	case err != nil || d <= 0 || d > 24*time.Hour && strings.Contains(name, "access"):
		c.note(id, name+" "+strconv.Quote(v)+" does not come: it is not a duration of at most a day")
	default:
		*to = caddyfileutil.Duration(d.String())
	}
}

func (c *Clients) hydra(h *hydraClient, members map[string]any) {
	one := client.Client{
		ID: h.ID, Name: h.Name, Public: h.Auth == "none", Consent: "on", RedirectURIs: c.redirects(h.ID, "", h.RedirectURIs),
		PostLogoutRedirectURIs: c.redirects(h.ID, "", h.PostLogout), BackchannelLogoutURI: noBraces(h.Backchannel),
	}
	if h.SkipConsent {
		one.Consent = "off"
	}
	for _, g := range h.Grants {
		switch g {
		case "authorization_code", "refresh_token", "client_credentials":
			one.Grants = append(one.Grants, g)
		case "urn:ietf:params:oauth:grant-type:device_code":
			one.Grants = append(one.Grants, "device_code")
		default:
			c.note(h.ID, "the grant "+strconv.Quote(g)+" does not come")
		}
	}
	if len(h.Grants) == 0 { // RFC 7591 2
		one.Grants = []string{"authorization_code"}
	}
	if len(one.Grants) == 0 {
		c.note(h.ID, "does not come: no grant is left that it could use")
		return
	}
	for _, s := range strings.Fields(h.Scope) {
		switch {
		case s == "offline" || s == "offline_access": // a refresh token comes with the grant
			if !slices.Contains(one.Grants, "refresh_token") {
				one.Grants = append(one.Grants, "refresh_token")
			}
		case !strings.ContainsAny(s, "{}*"):
			one.Scopes = append(one.Scopes, s)
		default:
			c.note(h.ID, "the scope "+strconv.Quote(s)+" does not come: name each scope in full")
		}
	}
	one.IDTokenClaims = slices.Contains(one.Scopes, "openid")
	for _, o := range h.Origins {
		if strings.ContainsAny(o, "*{}") {
			c.note(h.ID, "the origin "+strconv.Quote(o)+" does not come: name each origin in full")
		} else {
			one.Origins = append(one.Origins, o)
		}
	}
	switch {
	case h.Auth == "private_key_jwt" && h.JWKSURI != "":
		one.AuthMethod, one.JWKS = h.Auth, noBraces(h.JWKSURI)
	case h.Auth == "private_key_jwt":
		c.note(h.ID, "it signs in by a key: put its key set into a file for jwks, until then it has a secret")
	case h.Auth == "client_secret_post":
		one.AuthMethod = "post"
	}
	one.FrontchannelLogoutURI = noBraces(h.Frontchannel)
	if h.UserinfoAlg != "none" {
		c.oneOf(h.ID, "userinfo_signed_response_alg", h.UserinfoAlg, &one.UserinfoAlg, "RS256", "ES256", "EdDSA")
	}
	if h.TokenForm == "jwt" {
		one.TokenFormat = "jwt"
	}
	c.lifetime(h.ID, "authorization_code_grant_access_token_lifespan", h.CodeLife, &one.Lifetimes.AccessToken)
	c.lifetime(h.ID, "refresh_token_grant_refresh_token_lifespan", h.RefreshLife, &one.Lifetimes.RefreshToken)
	for _, r := range h.Responses {
		if r != "code" {
			c.note(h.ID, "the response type "+strconv.Quote(r)+" does not come: code takes its place")
		}
	}
	if len(h.JWKS) > 2 && h.Auth != "private_key_jwt" {
		c.note(h.ID, "its key set jwks does not come: it signs in by a secret")
	}
	c.lacks(h.ID, unread(members, hydraMembers...))
	if h.SubjectType == "pairwise" {
		c.note(h.ID, "its pairwise subjects do not come: the application sees new users")
	}
	if len(h.Audience) > 0 {
		c.note(h.ID, "its audiences do not come: name those that are addresses by audiences")
	}
	c.add(&one)
}
