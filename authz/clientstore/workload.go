package clientstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A client with auth_method workload has no secret: the tokens that a trusted issuer gives to a workload stand for it.
// (RFC 7521 4, RFC 7523 2; docs/decisions/client-authentication.md#workloads)

// Workload is the bearer of a token of a trusted issuer.
type Workload struct {
	// Client is the client that the workload stands for, with the scopes that the operator gives the workload.
	Client    *client.Client
	Statement *workload.Statement
}

func (w *Workload) client() *client.Client {
	if w == nil {
		return nil
	}
	return w.Client
}

// TrustsIssuers reports whether there are workloads at all.
func (r *Registry) TrustsIssuers() bool { return r.workloads.Any() }

// HasCredentials reports whether a request authenticates its client in a way of its own, besides naming it.
func HasCredentials(h http.Header, f oauth.Form) bool {
	return len(h.Values("Authorization")) > 0 || f.Has("client_secret") || f.Has("client_assertion") || f.Has("client_assertion_type")
}

// AuthenticateWorkload returns the workload whose token is the assertion of a request without other credentials. (RFC
// 7523 2.1) A token is used up by it.
func (r *Registry) AuthenticateWorkload(req *http.Request, f oauth.Form) (*Workload, error) {
	raw, id := f.Get("assertion"), f.Get("client_id")
	if raw == "" {
		return nil, oauth.InvalidRequest(nil, "assertion is missing")
	}
	ctx, cancel := verdictContext(req)
	defer cancel()
	w, err := r.workload(ctx, id, raw)
	if err == nil || errors.As(err, new(*oauth.Error)) {
		return w, err
	}
	return nil, r.noteFailure(req, id, oauth.InvalidGrant(err, "assertion is invalid, expired or was used before")) // RFC 7523 3.1
}

// VerifyWorkload returns the workload whose token is verified and used up here, on behalf of another client.
func (r *Registry) VerifyWorkload(ctx context.Context, raw string) (*Workload, error) {
	return r.workload(ctx, "", raw)
}

// workload verifies a token and uses it up. An *oauth.Error is a failure or says that the client is not usable; any
// other error is why the token is refused.
func (r *Registry) workload(ctx context.Context, id, raw string) (*Workload, error) {
	st, err := r.workloads.Verify(ctx, raw, id)
	if err != nil {
		return nil, err
	}
	c, err := r.proving(ctx, st.Client, client.MethodWorkload)
	if err != nil {
		return nil, err
	}
	err = r.update(ctx, st.Spend)
	if errors.Is(err, storage.ErrExists) {
		return nil, workload.ErrReplayed
	}
	if err != nil {
		return nil, err
	}
	return &Workload{Client: narrowed(c, st.Scopes), Statement: st}, nil
}

// narrowed is a client that is allowed these of its scopes alone, and asks for them if it names none. No scopes: as it
// is.
func narrowed(c *client.Client, scopes []string) *client.Client {
	if len(scopes) == 0 {
		return c
	}
	out := *c
	other := func(name string) bool { return !slices.Contains(scopes, name) }
	out.Scopes = slices.DeleteFunc(slices.Clone(c.Scopes), other)
	if out.DefaultScopes = slices.DeleteFunc(slices.Clone(c.DefaultScopes), other); len(out.DefaultScopes) == 0 {
		out.DefaultScopes = out.Scopes
	}
	return &out
}

// checkWorkloads refuses a trusted issuer without a client, and a client that nothing can be shown for.
func (r *Registry) checkWorkloads(rules []workload.Rule, p *client.Problems) {
	for _, rule := range rules {
		reg := r.fixed[rule.Client]
		say := func(format string, args ...any) {
			p.Addf("trust_issuer %s: client: "+format, append([]any{rule.Issuer}, args...)...)
		}
		switch {
		case rule.Client == "": // said already
		case reg == nil:
			say("there is no client %q in the configuration", rule.Client)
		case rule.Provider == "" && reg.client.AuthMethod != client.MethodWorkload:
			say("%q has another way to authenticate: give it `auth_method workload` in place of a secret", rule.Client)
		case rule.Provider == "":
		case !reg.client.HasGrant(client.GrantJWTBearer):
			say("id_jag needs the grant jwt_bearer, which %q lacks", rule.Client)
		case reg.client.AuthMethod == client.MethodWorkload:
			say("id_jag: %q has auth_method workload: give it credentials of its own", rule.Client)
		case !slices.Contains(reg.client.IDPs, rule.Provider):
			say("id_jag: %q lacks the provider %q: add it to its idps", rule.Client, rule.Provider)
		}
	}
	named := r.workloads.Clients()
	for _, id := range slices.Sorted(maps.Keys(r.fixed)) {
		reg := r.fixed[id]
		p.AddErr(r.checkBearer(reg.client))
		if reg.client.AuthMethod == client.MethodWorkload && !slices.Contains(named, id) {
			p.Addf("client %q: auth_method workload: no trust_issuer names it: add `trust_issuer ADDRESS { match …; client %s }`", id, id)
		}
	}
}

// checkBearer refuses the grant jwt_bearer to a client that can have nothing to show.
func (r *Registry) checkBearer(c *client.Client) error {
	if _, named := r.workloads.IdentityClients()[c.ID]; named || !c.HasGrant(client.GrantJWTBearer) || c.AuthMethod == client.MethodWorkload {
		return nil
	}
	return client.Invalidf("client %q: grants: jwt_bearer is for clients with auth_method workload, which show tokens of a trust_issuer, and for those of a trust_issuer with id_jag", c.ID)
}

// TakesIdentities reports whether identity assertions of some issuer are taken.
func (r *Registry) TakesIdentities() bool { return r.workloads.TakesIdentities() }

// VerifyIdentity returns what an identity assertion says that the client shows. It is not used up: see
// workload.Identity.Spend.
func (r *Registry) VerifyIdentity(ctx context.Context, c *client.Client, raw string) (*workload.Identity, error) {
	who, err := r.workloads.VerifyIdentity(ctx, raw, c.ID)
	if err == nil || errors.As(err, new(*oauth.Error)) {
		return who, err
	}
	return nil, oauth.InvalidGrant(err, "assertion is invalid, expired or was used before") // RFC 7523 3.1
}

// IssuesIdentities reports whether a client of the configuration can get identity assertions for others.
func (r *Registry) IssuesIdentities() bool {
	for _, reg := range r.fixed {
		if e := reg.client.Exchange; e != nil && len(e.IDJAG) > 0 {
			return true
		}
	}
	return false
}

// String says for events which workload it was.
func (w *Workload) String() string {
	return fmt.Sprintf("workload %s of %s", w.Statement.Subject, w.Statement.Issuer)
}
