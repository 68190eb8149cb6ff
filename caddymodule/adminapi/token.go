package adminapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// IssueRequest is the body that `caddy gatehouse token issue` sends.
type IssueRequest struct {
	Client    string                 `json:"client"`
	Scope     []string               `json:"scope,omitempty"`
	Resources []string               `json:"resources,omitempty"`
	Lifetime  caddyfileutil.Duration `json:"lifetime,omitempty"` // Default: the client's
}

// AccessToken is a new access token, shown this once.
type AccessToken struct {
	Token     string    `json:"access_token"`
	Scope     []string  `json:"scope,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

func adminIssueToken(i *Instance, r *http.Request, in IssueRequest) (any, error) {
	res := caddyfileutil.NewVerbatimResolver()
	q := authz.IssueRequest{
		ClientID: in.Client, Scope: res.List("scope", in.Scope, caddyfileutil.CheckScope),
		Resources: res.List("resources", in.Resources, caddyfileutil.CheckURI),
		Lifetime:  res.Duration("lifetime", in.Lifetime),
	}
	if err := res.Err(); err != nil {
		return nil, badRequest{err}
	}
	out, err := i.Authz.IssueToken(r.Context(), q, caller(r))
	if err != nil {
		return nil, i.meantClient(r.Context(), in.Client, err)
	}
	return AccessToken{out.Token.Reveal(), out.Scope, out.ExpiresAt}, nil
}

// meantClient adds the client that was probably meant to an error about one that is unknown.
func (i *Instance) meantClient(ctx context.Context, id string, err error) error {
	list, listErr := i.Authz.Clients().List(ctx)
	if listErr != nil {
		return err
	}
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	if found := spelling.Word(id, ids); found != "" && !slices.Contains(ids, id) {
		return badRequestf("there is no client %q: did you mean %q?", id, found)
	}
	return err
}

type tokenRequest struct {
	Token secret.String `json:"token"`
}

// Introspection is the content of an access token. Of an inactive one nothing else is known.
type Introspection struct {
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
	// How often it may be used and was used. Absent: unlimited. This lookup does not count as a use.
	UsageLimit int `json:"usage_limit,omitempty"`
	UsageCount int `json:"usage_count,omitempty"`
}

func adminIntrospect(i *Instance, r *http.Request, in tokenRequest) (any, error) {
	t, err := i.Authz.Introspect(r.Context(), in.Token.Reveal())
	if err != nil {
		return nil, err
	}
	out := Introspection{
		Active: t.Active, ClientID: t.ClientID, Subject: t.Subject, Scope: t.Scope, Audience: t.Audience, Level: t.Level,
		IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, AuthTime: t.AuthTime, UsageLimit: t.UsageLimit, UsageCount: t.UsageCount,
	}
	if t.Person != nil {
		out.Username = t.Person.Username
	}
	return out, nil
}

func adminRevokeToken(i *Instance, r *http.Request, in tokenRequest) (any, error) {
	before, err := i.Authz.Introspect(r.Context(), in.Token.Reveal())
	if err != nil {
		return nil, err
	}
	out := Outcome{"revoked"}
	if !before.Active {
		out = Outcome{"nothing to revoke: the token is unknown, expired or was revoked before"}
	}
	return out, i.Authz.RevokeToken(r.Context(), in.Token.Reveal(), caller(r)) // what a spent one has led to ends too
}
