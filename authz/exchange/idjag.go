package exchange

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TypeIDJAG is the type of an identity assertion for an authorization server elsewhere.
// (draft-ietf-oauth-identity-assertion-authz-grant; docs/decisions/token-endpoint.md#identity-assertions)
const TypeIDJAG = "urn:ietf:params:oauth:token-type:id-jag"

const (
	assertionLifetime = 5 * time.Minute
	notAToken         = "N_A" // RFC 8693 2.2.1
)

// assertion are the claims of an identity assertion.
type assertion struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	ClientID string   `json:"client_id"`
	ID       string   `json:"jti"`
	IssuedAt int64    `json:"iat"`
	Expires  int64    `json:"exp"`
	AuthTime int64    `json:"auth_time"`
	ACR      string   `json:"acr,omitempty"`
	Scope    string   `json:"scope,omitempty"`
	Resource []string `json:"resource,omitempty"`
	Email    string   `json:"email,omitempty"`
	Verified bool     `json:"email_verified,omitempty"`

	Confirmation token.Confirmation `json:"cnf,omitzero"`
}

// readAssertion reads what is particular to a request for an identity assertion.
func (x *request) readAssertion() error {
	f := x.Form
	audience := f.All("audience")
	switch {
	case len(audience) != 1:
		return oauth.InvalidRequest(nil, "audience must be the issuer of one authorization server")
	case f.Get("actor_token") != "" || f.Get("actor_token_type") != "":
		return oauth.InvalidRequest(nil, "an identity assertion names no actor")
	case f.Has("authorization_details"):
		return oauth.InvalidDetails(nil, "an identity assertion has no authorization_details")
	case x.kind != typeID && x.kind != typeRefresh:
		return oauth.InvalidRequest(nil, "an identity assertion needs an ID token or a refresh token")
	}
	x.assertTo = audience[0]
	for _, r := range f.All("resource") {
		if client.CheckResource(r) != nil {
			return oauth.InvalidTarget(nil, "the resource "+oauth.Quoted(r)+" is malformed")
		}
		x.targets = append(x.targets, r)
	}
	if len(x.targets) > maxTargets {
		return oauth.InvalidTarget(nil, tooMany)
	}
	var err error
	if x.scope, err = client.ParseScope(f.Get("scope")); err != nil {
		return oauth.InvalidScope(err, "scope is malformed")
	}
	return nil
}

// assert gives an identity assertion for a token of the client itself: it says to the authorization server elsewhere
// which person the client acts for. It opens nothing here.
func (s *service) assert(ctx context.Context, x *request, sub *subject) (jsonresponse.Body, error) {
	c := x.Client
	if sub.from != c.ID { // "MUST validate that the audience of the subject token matches the client_id"
		return nil, refuse(errForeign)
	}
	err := s.deps.Clients.May(c, clientstore.Permission{
		Grant:    client.GrantTokenExchange,
		Provider: sub.access.Provider, AssertTo: x.assertTo,
	})
	if err != nil {
		return nil, err
	}
	there := c.MayAssert(x.assertTo)
	if len(x.scope) == 0 { // an assertion without scope would bound nothing there
		x.scope = there.Scopes
	}
	for _, name := range x.scope {
		if !slices.Contains(there.Scopes, name) {
			return nil, oauth.InvalidScope(nil, "the client may not ask for the scope "+oauth.Quoted(name)+" there")
		}
	}
	id, err := s.deps.Tokens.NewGrantID(x.Now)
	if err != nil {
		return nil, err
	}
	e, err := s.deps.Events.New(eventAsserted, x.From)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	e.PersonID, e.ClientID, e.SessionID, e.Actor = sub.access.Subject, c.ID, sub.access.SessionID, c.ID
	e.Reason = "for " + x.assertTo + " as client " + there.ClientID
	var who authn.Subject
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		again, err := s.judge(tx, x)
		if err != nil {
			return err
		}
		if again.access.Epochs != sub.access.Epochs {
			return refuse(errInactive)
		}
		st, ok, err := s.deps.Tokens.CheckStanding(tx, c.ID, sub.access.Subject)
		if err != nil {
			return err
		}
		if !ok {
			return refuse(errInactive)
		}
		who = st.Subject
		if err := x.Spend(tx); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	says := assertion{
		Issuer: s.deps.Issuer, Subject: s.deps.Tokens.SubjectFor(c, sub.access.Subject), Audience: x.assertTo, ClientID: there.ClientID, ID: id,
		IssuedAt: x.Now.Unix(), Expires: x.Now.Add(assertionLifetime).Unix(), AuthTime: sub.access.AuthTime.Unix(),
		ACR:   token.ACR(sub.access.Level),
		Scope: strings.Join(x.scope, " "), Resource: x.targets, Confirmation: token.Confirmation{JKT: x.Proved.JKT},
	}
	if slices.Contains(sub.scope, "email") && who.Profile["email_verified"] == "true" {
		says.Email, says.Verified = who.Profile["email"], true
	}
	text, err := s.deps.Keys.Sign(c.IDTokenAlg, keys.TypeIdentity, says)
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	return &jsonresponse.Token{
		TokenType: notAToken, AccessToken: text, IssuedType: TypeIDJAG, ExpiresIn: jsonresponse.Seconds(assertionLifetime), Scope: says.Scope,
	}, nil
}
