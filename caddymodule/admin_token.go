package caddymodule

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

type issueRequest struct {
	Client    string   `json:"client"`
	Scope     []string `json:"scope,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Lifetime  Duration `json:"lifetime,omitempty"` // Default: the client's
}

// issuedToken is a new access token, shown this once.
type issuedToken struct {
	Token     string    `json:"access_token"`
	Scope     []string  `json:"scope,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

func adminIssueToken(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in issueRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	res := &resolver{verbatim: true}
	q := authz.IssueRequest{
		ClientID: in.Client, Scope: res.list("scope", in.Scope, checkScope), Resources: res.list("resources", in.Resources, checkURI),
		Lifetime: res.duration("lifetime", in.Lifetime),
	}
	if err := res.err(); err != nil {
		return nil, err
	}
	out, err := i.authz.IssueToken(r.Context(), q)
	if err != nil {
		return nil, err
	}
	return issuedToken{out.Token.Reveal(), out.Scope, out.ExpiresAt}, nil
}

type tokenRequest struct {
	Token secret.String `json:"token"`
}

// introspected is what an access token says. Of one that is not active nothing else is known.
type introspected struct {
	Active    bool      `json:"active"`
	ClientID  string    `json:"client_id,omitempty"`
	Subject   string    `json:"sub,omitempty"`
	Username  string    `json:"username,omitempty"`
	Scope     []string  `json:"scope,omitempty"`
	Audience  []string  `json:"aud,omitempty"`
	Level     int       `json:"level,omitempty"`
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	AuthTime  time.Time `json:"auth_time,omitzero"`
	// How often it may be used and was used. Absent: unlimited. To look here is no use.
	UsageLimit int `json:"usage_limit,omitempty"`
	UsageCount int `json:"usage_count,omitempty"`
}

func adminIntrospect(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in tokenRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	t, err := i.authz.Introspect(r.Context(), in.Token.Reveal())
	if err != nil {
		return nil, err
	}
	out := introspected{
		Active: t.Active, ClientID: t.ClientID, Subject: t.Subject, Scope: t.Scope, Audience: t.Audience, Level: t.Level,
		IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, AuthTime: t.AuthTime, UsageLimit: t.UsageLimit, UsageCount: t.UsageCount,
	}
	if t.Person != nil {
		out.Username = t.Person.Username
	}
	return out, nil
}

func adminRevokeToken(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in tokenRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return done{"revoked"}, i.authz.RevokeToken(r.Context(), in.Token.Reveal())
}

// clientInfo is a client in the form of the configuration, without its secrets.
type clientInfo struct {
	Client

	// Whether it was added by command; the others stand in the configuration.
	Stored    bool      `json:"stored"`
	CreatedAt time.Time `json:"created_at,omitzero"` // of those added by command
}

func adminListClients(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := i.authz.ListClients(r.Context())
	if err != nil {
		return nil, err
	}
	out := make([]clientInfo, 0, len(list))
	for _, c := range list {
		out = append(out, clientInfo{shown(&c.Client), c.Stored, c.CreatedAt})
	}
	return out, nil
}

// shown undoes Client.build for a client that has its defaults.
func shown(c *client.Client) Client {
	text := func(d time.Duration) Duration {
		if d == 0 {
			return ""
		}
		return Duration(d.String())
	}
	l := c.Lifetimes
	return Client{
		TokenFormat: c.TokenFormat, App: (*ClientApp)(c.App),
		ID: c.ID, Name: c.Name, Public: c.Public, AuthMethod: c.AuthMethod, RedirectURIs: c.RedirectURIs, PostLogoutRedirectURIs: c.PostLogoutRedirectURIs,
		Grants: c.Grants, Scopes: c.Scopes, DefaultScopes: c.DefaultScopes, IDPs: c.IDPs, Consent: c.Consent, PKCERequired: c.PKCERequired,
		IDTokenAlg: c.IDTokenAlg, Audiences: c.Audiences, Origins: c.Origins, MaxSessions: Count(strconv.Itoa(c.MaxSessions)), Disabled: c.Disabled,
		Lifetimes: Lifetimes{
			Code: text(l.Code), AccessToken: text(l.AccessToken), RefreshToken: text(l.RefreshToken), RefreshChain: text(l.RefreshChain),
			RefreshGrace: text(l.RefreshGrace), Session: text(l.Session),
		},
	}
}
