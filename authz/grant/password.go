package grant

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// grantPassword gives a client a token of the person whose password it sends. (RFC 6749 4.3;
// docs/decisions/token-endpoint.md#password-grant) There is no consent: a person who hands over the password has no say
// any more.
func (s *Grants) grantPassword(ctx context.Context, q *Request) (*jsonresponse.Token, error) {
	username, password := q.Form.Get("username"), q.Form.Get("password")
	if username == "" || password == "" {
		return nil, oauth.InvalidRequest(nil, "username or password is missing")
	}
	if q.Form.Has("authorization_details") {
		return nil, oauth.InvalidDetails(nil, "a password gives no authorization_details")
	}
	scope, err := s.clients.ScopesFor(q.Client, q.Form, client.GrantPassword)
	if err != nil {
		return nil, err
	}
	resources := q.Client.OwnResources(q.Form.All("resource"))
	// Before the password is looked at. IssueGrant asks again for the provider that did.
	if err := s.clients.May(q.Client,
		clientstore.Permission{Grant: client.GrantPassword, Scope: scope, Provider: client.DefaultProvider, Resources: resources}); err != nil {
		return nil, err
	}
	if s.deps.Passwords == nil {
		return nil, oauth.ServerError(errors.New("passwords are not checked here"))
	}
	if q.Client.SecondFactor == authn.SecondFactorAlways {
		return nil, oauth.InvalidGrant(nil, "sign-ins of the client need a second step, which this grant cannot ask for")
	}
	check := s.deps.Passwords.CheckPassword
	if q.Client.PasswordOnly {
		check = s.deps.Passwords.CheckPasswordOnly
	}
	si, err := check(ctx, q.Client.ID, username, password, q.From)
	if err != nil {
		return nil, passwordError(err)
	}
	if s.clients.ScopeLevel(scope) > si.Level { // a step-up needs a page
		return nil, oauth.InvalidScope(nil, "a scope needs a higher authentication level than a password")
	}
	return s.IssueGrant(ctx, q, &Issuance{
		Grant: token.Grant{SignIn: token.NewSignIn(&si.Result), Scope: scope, Resources: resources}, Epoch: si.Epoch, Whole: true,
	})
}

func passwordError(err error) error {
	throttled := new(authn.ThrottledError)
	switch {
	case errors.As(err, new(*authn.Refusal)):
		return oauth.InvalidGrant(err, "signing in with a password is switched off")
	case errors.Is(err, authn.ErrSecondFactor):
		return oauth.InvalidGrant(err, "the person has set up a second factor, which this grant cannot ask for")
	case errors.Is(err, authn.ErrBadCredentials):
		return oauth.InvalidGrant(err, "username or password is wrong") // RFC 6749 5.2
	case errors.As(err, &throttled):
		return oauth.TooManyTries(err, throttled.Wait)
	}
	return oauth.TemporarilyUnavailable(err) // storage, or too many slow hashes at once
}
