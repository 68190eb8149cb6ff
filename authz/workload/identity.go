package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// An identity assertion (ID-JAG) is what a trusted issuer gives to a client for us: it says which person the client
// acts for. Its type is another one than that of a workload's token, so neither passes for the other.

// typeIdentity is the typ header of an identity assertion. (draft-ietf-oauth-identity-assertion-authz-grant 3)
const typeIdentity = "oauth-id-jag+jwt"

const maxResources = 16

// Identity is an identity assertion that was verified.
type Identity struct {
	Issuer, Subject string
	Provider        string   // whose linked identities the subject is one of
	Scope           []string // that the issuer allows. nil: it says nothing
	Most            []string // scopes that the operator allows. nil: those of the client
	Resources       []string
	AuthTime        time.Time
	JKT             string // of the key that the client must prove. Empty: none

	seen  string
	until time.Time
}

// identityClaims are those of an identity assertion.
type identityClaims struct {
	claims

	ClientID     string          `json:"client_id"`
	Scope        *string         `json:"scope"`
	Resource     json.RawMessage `json:"resource"`
	AuthTime     *float64        `json:"auth_time"`
	Confirmation json.RawMessage `json:"cnf"`
}

// TakesIdentities reports whether some issuer's identity assertions are taken.
func (t *Issuers) TakesIdentities() bool { return len(t.IdentityClients()) > 0 }

// IdentityClients are the clients that can show identity assertions, and the provider of each.
func (t *Issuers) IdentityClients() map[string]string {
	out := map[string]string{}
	for _, r := range t.rules {
		if r.Provider != "" {
			out[r.Client] = r.Provider
		}
	}
	return out
}

// VerifyIdentity returns what an identity assertion says that a client shows. Nothing of it is used up: see Spend. An
// *oauth.Error is a failure, not a verdict.
func (t *Issuers) VerifyIdentity(ctx context.Context, raw, clientID string) (*Identity, error) {
	if len(raw) > maxToken {
		return nil, errMalformed
	}
	parsed, err := jose.ParseSignedCompact(raw, client.AssertionAlgorithms)
	if err != nil {
		return nil, errMalformed
	}
	if typ := parsed.Signatures[0].Header.ExtraHeaders[jose.HeaderType]; !strings.EqualFold(fmt.Sprint(typ), typeIdentity) {
		return nil, invalid("it is another kind of token") // RFC 8725 3.11
	}
	return byRules(t, parsed, func(r *rule) bool { return r.Provider != "" && r.Client == clientID }, func(r *rule) (*Identity, error) {
		return t.tryIdentity(ctx, r, parsed)
	})
}

func (t *Issuers) tryIdentity(ctx context.Context, r *rule, parsed *jose.JSONWebSignature) (*Identity, error) {
	payload, err := r.keys.verify(ctx, parsed, t.now())
	if err != nil {
		return nil, err
	}
	var c identityClaims
	if json.Unmarshal(payload, &c) != nil {
		return nil, errMalformed
	}
	if err := r.check(&c.claims, t.now().UTC()); err != nil {
		return nil, err
	}
	if c.ClientID != r.Client {
		return nil, denial.New(denial.AssertionUntrusted, "the client_id of the assertion is that of another client")
	}
	if err := r.matches(payload, c.Subject); err != nil {
		return nil, err
	}
	st := r.statement(&c.claims)
	out := &Identity{
		Issuer: c.Issuer, Subject: c.Subject, Provider: r.Provider, Most: r.Scopes, AuthTime: at(*c.IssuedAt),
		seen: st.seen, until: st.until,
	}
	if c.AuthTime != nil {
		out.AuthTime = at(min(max(*c.AuthTime, 0), *c.IssuedAt)) // not after it was said
	}
	if c.Scope != nil {
		if out.Scope, err = client.ParseScope(*c.Scope); err != nil {
			return nil, invalid("its scope is malformed")
		}
		out.Scope = append([]string{}, out.Scope...) // not nil: it says that there are no scopes
	}
	if out.Resources, err = resources(c.Resource); err != nil {
		return nil, err
	}
	if c.Confirmation != nil {
		var bound struct {
			JKT string `json:"jkt"`
		}
		if json.Unmarshal(c.Confirmation, &bound) != nil || bound.JKT == "" {
			return nil, invalid("it is bound to something else than a key")
		}
		out.JKT = bound.JKT
	}
	return out, nil
}

// resources reads the claim: one text or several.
func resources(raw json.RawMessage) (out []string, err error) {
	var one string
	switch {
	case raw == nil:
		return nil, nil
	case json.Unmarshal(raw, &one) == nil:
		out = []string{one}
	case json.Unmarshal(raw, &out) != nil || len(out) > maxResources:
		return nil, invalid("its resource is malformed")
	}
	if slices.Contains(out, "") {
		return nil, invalid("its resource is malformed")
	}
	return out, nil
}

// Spend marks an identity assertion as used, or returns storage.ErrExists if it was used before.
func (i *Identity) Spend(tx storage.Tx) error { return seen.Create(tx, i.seen, struct{}{}, i.until) }
