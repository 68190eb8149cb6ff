package oauth2

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Methods of our authentication at the token endpoint. (RFC 6749 2.3.1)
const (
	AuthBasic = "client_secret_basic"
	AuthPost  = "client_secret_post"
)

const (
	defaultTimeout  = 5 * time.Second
	lowest, highest = 1, 4 // authentication levels
	maxAddress      = 2048 // bytes of a URL
	maxScopes       = 100
)

// Config is the operator's configuration. A Preset fills in what is empty, down to the addresses.
type Config struct {
	// Preset is one of those below. Default: none.
	Preset       string
	ClientID     string
	ClientSecret secret.String
	// Issuer names the provider: identities of one person at two providers are two.
	Issuer                        string
	AuthorizationURL, TokenURL    string
	ProfileURL                    string
	EmailsURL                     string // of GitHub alone: the list of addresses
	AuthMethod                    string // Default: AuthPost
	Scopes                        []string
	Subject, Email, EmailVerified string // members of the profile, with points between nested ones
	EmailsAreVerified             bool   // the provider shows verified addresses alone
	Level                         int    // of each sign-in. Default: 1
	Mapping                       idp.Mapping
	IdentifyBy                    string
	Timeout                       time.Duration // for a sign-in. Default: 5 seconds

	// answersAs is the issuer in the responses of the provider (RFC 9207). Empty: that is not known. No one can give
	// the answer of one provider for that of another even so, since each has a redirect URI of its own. (RFC 9700 2.1)
	answersAs string
}

// The presets.
const (
	GitHub   = "github"
	Discord  = "discord"
	Facebook = "facebook"
	LinkedIn = "linkedin"
	Twitter  = "twitter" // X
)

// presets say what each provider has documented.
//
//nolint:gosec // addresses, no secrets
var presets = map[string]Config{
	// docs.github.com, "Authorizing OAuth apps", "REST API endpoints for users", "… for emails"
	GitHub: {
		Issuer: "https://github.com", AuthorizationURL: "https://github.com/login/oauth/authorize",
		TokenURL:   "https://github.com/login/oauth/access_token",
		ProfileURL: "https://api.github.com/user", EmailsURL: "https://api.github.com/user/emails",
		Scopes: []string{"read:user", "user:email"}, Subject: "id",
		answersAs: "https://github.com/login/oauth",
	},
	// discord.com/developers/docs, "OAuth2", "User Resource"
	Discord: {
		Issuer: "https://discord.com", AuthorizationURL: "https://discord.com/oauth2/authorize", TokenURL: "https://discord.com/api/oauth2/token",
		ProfileURL: "https://discord.com/api/users/@me", Scopes: []string{"identify", "email"}, Subject: "id", Email: "email",
		EmailVerified: "verified",
	},
	// developers.facebook.com, "Manually Build a Login Flow", "Graph API: User". The id belongs to the app.
	Facebook: {
		Issuer: "https://www.facebook.com", AuthorizationURL: "https://www.facebook.com/v23.0/dialog/oauth",
		TokenURL:   "https://graph.facebook.com/v23.0/oauth/access_token",
		ProfileURL: "https://graph.facebook.com/v23.0/me?fields=id,name,first_name,last_name,email", Scopes: []string{"public_profile", "email"},
		Subject: "id", Email: "email",
	},
	// learn.microsoft.com/linkedin, "Sign In with LinkedIn using OpenID Connect". Its ID tokens have no nonce, so they
	// prove nothing about a sign-in; its userinfo does.
	LinkedIn: {
		Issuer: "https://www.linkedin.com/oauth", AuthorizationURL: "https://www.linkedin.com/oauth/v2/authorization",
		TokenURL:   "https://www.linkedin.com/oauth/v2/accessToken",
		ProfileURL: "https://api.linkedin.com/v2/userinfo", Scopes: []string{"openid", "profile", "email"}, Subject: "sub", Email: "email",
		EmailVerified: "email_verified",
	},
	// docs.x.com, "OAuth 2.0 Authorization Code Flow with PKCE", "Get my User". It shows confirmed addresses alone.
	Twitter: {
		Issuer: "https://x.com", AuthorizationURL: "https://x.com/i/oauth2/authorize",
		TokenURL: "https://api.x.com/2/oauth2/token", AuthMethod: AuthBasic,
		ProfileURL: "https://api.x.com/2/users/me?user.fields=name,username,confirmed_email",
		Scopes:     []string{"users.read", "tweet.read", "users.email"},
		Subject:    "data.id", Email: "data.confirmed_email", EmailsAreVerified: true,
	},
}

func (c Config) withDefaults() Config {
	p := presets[c.Preset]
	c.AuthorizationURL, c.TokenURL, c.ProfileURL = cmp.Or(c.AuthorizationURL, p.AuthorizationURL), cmp.Or(c.TokenURL, p.TokenURL),
		cmp.Or(c.ProfileURL, p.ProfileURL)
	if p.ProfileURL != "" && origin(c.ProfileURL) != origin(p.ProfileURL) {
		// A server of one's own, such as GitHub Enterprise Server: its people have the same numbers as others at GitHub.
		p.Issuer = origin(c.ProfileURL)
		if u, err := url.Parse(c.ProfileURL); err == nil && p.EmailsURL != "" {
			p.EmailsURL = u.JoinPath("emails").String()
		}
	}
	if origin(c.AuthorizationURL) != origin(p.AuthorizationURL) {
		p.answersAs = ""
	}
	c.Issuer, c.EmailsURL, c.answersAs = cmp.Or(c.Issuer, p.Issuer), cmp.Or(c.EmailsURL, p.EmailsURL), p.answersAs
	c.AuthMethod, c.Subject = cmp.Or(c.AuthMethod, p.AuthMethod, AuthPost), cmp.Or(c.Subject, p.Subject)
	if c.Email == "" {
		c.Email, c.EmailVerified, c.EmailsAreVerified = p.Email, cmp.Or(c.EmailVerified, p.EmailVerified), c.EmailsAreVerified ||
			p.EmailsAreVerified
	}
	if len(c.Scopes) == 0 {
		c.Scopes = p.Scopes
	}
	c.Scopes = slices.Clone(c.Scopes)
	c.Level, c.Timeout = cmp.Or(c.Level, lowest), cmp.Or(c.Timeout, defaultTimeout)
	return c
}

// Validate returns an error that lists everything wrong with the configuration.
func (c Config) Validate() error {
	var wrong []error
	add := func(err error) { wrong = append(wrong, err) }
	if c.Preset != "" && presets[c.Preset].Issuer == "" {
		add(coded.Errorf("preset", "value", "there is no preset %q", c.Preset))
	}
	c = c.withDefaults()
	if c.ClientID == "" || !idp.IsText(c.ClientID, 256) {
		add(coded.New("client_id_missing", "client_id is missing: it is what the provider calls Gatehouse"))
	}
	if c.ClientSecret.IsZero() {
		add(coded.New("secret_missing", "client_secret is missing: such providers know Gatehouse by it"))
	}
	for _, a := range []struct{ option, value string }{
		{"authorization_url", c.AuthorizationURL},
		{"token_url", c.TokenURL},
		{"profile_url", c.ProfileURL},
	} {
		if err := checkAddress(a.value); err != nil {
			add(fmt.Errorf("%s: %w", a.option, err))
		}
	}
	if err := checkAddress(c.EmailsURL); c.EmailsURL != "" && err != nil {
		add(fmt.Errorf("emails_url: %w", err))
	}
	if c.EmailsURL != "" && c.Preset != GitHub {
		add(coded.New("github_only", "emails_url: only GitHub has a list of addresses"))
	}
	if c.Subject == "" {
		add(coded.New("required", "subject is missing: the member of the profile that identifies a person permanently, such as id"))
	}
	if c.AuthMethod != AuthBasic && c.AuthMethod != AuthPost {
		add(coded.New("auth_method", "auth_method: want basic or post"))
	}
	if len(c.Scopes) > maxScopes {
		add(coded.Errorf("entries", "max", "scopes: more than %d", maxScopes))
	}
	if c.Level < lowest || c.Level > highest {
		add(coded.Errorf("range", "from to", "level: want %d to %d", lowest, highest))
	}
	if err := c.Mapping.Validate(); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// origin is the origin of an address.
func origin(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// checkAddress demands https, or http at this machine.
func checkAddress(s string) error {
	if s == "" {
		return coded.New("required", "is missing")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || len(s) > maxAddress:
		return coded.New("address", "want an address such as https://provider.example/oauth")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback.Is(u.Hostname())):
		return coded.New("https", "want https: secrets are sent there")
	}
	return nil
}

// hosts are those that the operator or a preset has written.
func (c Config) hosts() map[string]bool {
	out := map[string]bool{}
	for _, s := range []string{c.TokenURL, c.ProfileURL, c.EmailsURL} {
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			out[providerhttp.HostPort(u)] = true
		}
	}
	return out
}

// identity returns the person that a profile describes.
func (p *Provider) identity(ctx context.Context, profile providerhttp.Object, token string) (*idp.Identity, error) {
	flat := profile.Flatten()
	subject := idp.Single(flat[p.cfg.Subject])
	if subject == "" || !isID(at(profile, p.cfg.Subject)) {
		return nil, &idp.Rejection{Reason: "the profile has no member that identifies the person"}
	}
	out := &idp.Identity{Issuer: p.cfg.Issuer, Subject: subject, Level: p.cfg.Level}
	if p.cfg.Preset == Facebook {
		out.Form = "client " + p.cfg.ClientID // its ids belong to the app
	}
	mail, verified := idp.Single(flat[p.cfg.Email]), p.cfg.EmailsAreVerified
	switch v := at(profile, p.cfg.EmailVerified); {
	case v == true:
		verified = true
	case v == "true" && p.cfg.Preset == LinkedIn: // it writes either
		verified = true
	}
	if p.cfg.EmailsURL != "" {
		var err error
		if mail, verified, err = p.githubEmail(ctx, token); err != nil {
			return nil, err
		}
		flat["email"] = []string{mail}
	}
	if mail = strings.TrimSpace(mail); mail != "" && idp.IsText(mail, maxEmail) && strings.Contains(mail, "@") {
		out.Email, out.EmailVerified = mail, verified
	}
	out.Details = p.mapping.Apply(flat)
	if p.cfg.IdentifyBy != "" {
		out.Stable = idp.Single(flat[p.cfg.IdentifyBy])
	}
	if names := out.Details["username"]; len(names) > 0 && idp.IsText(names[0], idp.MaxSubject) {
		out.Username = names[0]
	}
	return out, nil
}

// at returns what stands at a path of a profile.
func at(o providerhttp.Object, path string) any {
	if v, there := o[path]; there || path == "" {
		return v
	}
	name, rest, deeper := strings.Cut(path, ".")
	inner, ok := o[name].(map[string]any)
	if !deeper || !ok {
		return nil
	}
	return at(inner, rest)
}

// isID reports whether a value can identify someone: a text, or a whole number as GitHub has them.
func isID(v any) bool {
	switch v := v.(type) {
	case string:
		return true
	case json.Number:
		return !strings.ContainsAny(v.String(), ".eE-") && v.String() != "0"
	}
	return false
}
