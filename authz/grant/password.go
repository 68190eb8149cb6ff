package grant

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/authz/reply"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// grantPassword gives a client a token of the person whose password it sends. (RFC 6749 4.3;
// docs/decisions.md#password-grant) There is no consent: a person who hands over the password has no say any more.
func (s *Grants) grantPassword(ctx context.Context, q *Request) (*reply.Token, error) {
	username, password := q.form.Get("username"), q.form.Get("password")
	if username == "" || password == "" {
		return nil, oauth.InvalidRequest(nil, "username or password is missing")
	}
	scope, err := s.clients.ScopesFor(q.client, q.form)
	if err != nil {
		return nil, err
	}
	resources := q.client.OwnResources(q.form.All("resource"))
	// Before the password is looked at, and again below for the provider that did.
	if err := s.clients.May(q.client, registry.Permission{Grant: client.GrantPassword, Scope: scope, Provider: client.DefaultProvider, Resources: resources}); err != nil {
		return nil, err
	}
	if s.deps.Passwords == nil {
		return nil, oauth.ServerError(errors.New("passwords are not checked here"))
	}
	check := s.deps.Passwords.CheckPassword
	if q.client.PasswordOnly {
		check = s.deps.Passwords.CheckPasswordOnly
	}
	si, err := check(ctx, q.client.ID, username, password, q.from)
	if err != nil {
		return nil, passwordError(err)
	}
	if err := s.clients.May(q.client, registry.Permission{Provider: si.Provider}); err != nil {
		return nil, err
	}
	if s.clients.ScopeLevel(scope) > si.Level { // a step-up needs a page
		return nil, oauth.InvalidScope(nil, "a scope needs a higher authentication level than a password")
	}
	return s.issueGrant(ctx, q, &token.Grant{SignIn: token.NewSignIn(&si.Result), Scope: scope, Resources: resources}, si.Epoch)
}

func passwordError(err error) error {
	throttled := new(login.ThrottledError)
	switch {
	case errors.As(err, new(*login.Refusal)):
		return oauth.InvalidGrant(err, "signing in with a password is switched off")
	case errors.Is(err, login.ErrSecondFactor):
		return oauth.InvalidGrant(err, "the person has set up a second factor, which this grant cannot ask for")
	case errors.Is(err, login.ErrBadCredentials):
		return oauth.InvalidGrant(err, "username or password is wrong") // RFC 6749 5.2
	case errors.As(err, &throttled):
		return oauth.TooManyTries(err, throttled.Wait)
	}
	return oauth.TemporarilyUnavailable(err) // storage, or too many slow hashes at once
}

// issueGrant stores a new grant of a person who has signed in without a browser session, and its tokens. epoch is the
// person's when the sign-in was checked.
func (s *Grants) issueGrant(ctx context.Context, q *Request, g *token.Grant, epoch int64) (*reply.Token, error) {
	id, err := s.tokens.NewGrantID(q.now)
	if err != nil {
		return nil, err
	}
	var st token.Standing
	if err := s.view(ctx, func(tx storage.Tx) (err error) {
		st, err = s.checkStandingAt(tx, q.client.ID, g.Subject, epoch)
		return err
	}); err != nil {
		return nil, err
	}
	l := q.client.Lifetimes
	g.ClientID, g.Epochs, g.CreatedAt, g.ExpiresAt = q.client.ID, st.Epochs, q.now, q.now.Add(l.AccessToken)
	refreshes := q.client.HasGrant(client.GrantRefreshToken) && s.clients.UsageLimit(g.Scope) == 0
	if refreshes {
		g.ExpiresAt = q.now.Add(l.RefreshChain)
	}
	access, err := s.tokens.DraftGrantAccess(q.client, id, g, g.Scope, g.Resources, EventAccessIssued, q.from, q.now)
	if err != nil {
		return nil, err
	}
	answer := s.respond(q.client, access, q.now)
	var refresh *refreshDraft
	if refreshes {
		if refresh, err = s.draftRefresh(id, g, g.Scope, l, q.now); err != nil {
			return nil, err
		}
		answer.RefreshToken = refresh.token
	}
	if slices.Contains(g.Scope, client.ScopeOpenID) {
		answer.IDToken, err = s.tokens.SignIDToken(ctx, token.IDToken{
			Client: q.client, SignIn: g.SignIn, Subject: st.Subject, Scope: g.Scope, Access: access.Token,
		}, q.now)
		if err != nil {
			return nil, err
		}
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		if now, err := s.checkStandingAt(tx, q.client.ID, g.Subject, epoch); err != nil {
			return err
		} else if now.Epochs != g.Epochs {
			return oauth.InvalidGrant(errSignInEnded, "the sign-in has ended")
		}
		if err := s.tokens.StoreGrant(tx, id, *g, q.client.MaxSessions); err != nil {
			return err
		}
		if refresh != nil {
			if err := refresh.store(tx); err != nil {
				return err
			}
		}
		return s.tokens.Issue(tx, access)
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

var errSignInEnded = errors.New("client or person has changed since the password was looked at")

// checkStandingAt is standing for a person whose epoch must be as it was.
func (s *Grants) checkStandingAt(tx storage.Tx, clientID, subject string, epoch int64) (token.Standing, error) {
	st, ok, err := s.tokens.CheckStanding(tx, clientID, subject)
	if err == nil && (!ok || st.Subject.Epoch != epoch) {
		err = oauth.InvalidGrant(errSignInEnded, "the sign-in has ended")
	}
	return st, err
}
