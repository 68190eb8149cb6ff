package grant

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Issuance is a new grant of a person, who did not come by a code.
type Issuance struct {
	Grant token.Grant      // its sign-in, and what the person has granted
	Wish  clientstore.Wish // what the access token is to have of it
	Epoch int64            // of the person, when the sign-in was checked
	// Whole says that the request is refused if the identity of the person is not assured as one of the scopes demands.
	// Otherwise that scope is left out.
	Whole bool
	// Alone gives the access token alone: no refresh token and no ID token.
	Alone  bool
	Reason string // for the event of the access token
	// Spend runs first in the transaction that stores the tokens, and undoes it by an error. nil: nothing is spent.
	Spend func(tx storage.Tx) error
}

// IssueGrant stores a new grant and its tokens.
func (s *Grants) IssueGrant(ctx context.Context, q *Request, i *Issuance) (*jsonresponse.Token, error) {
	g, epoch := &i.Grant, i.Epoch
	id, err := s.tokens.NewGrantID(q.Now)
	if err != nil {
		return nil, err
	}
	var st token.Standing
	if err := s.view(ctx, func(tx storage.Tx) (err error) {
		st, err = s.checkStandingAt(tx, q.Client.ID, g.Subject, epoch)
		return err
	}); err != nil {
		return nil, err
	}
	allowed, err := s.clients.Decide(q.Client, i.Wish, clientstore.Granted{
		Scope: g.Scope, Resources: g.Resources, Details: g.AuthorizationDetails, Provider: g.SignIn.Provider, Person: &st.Subject,
		Whole: i.Whole,
	}, q.Now)
	if err != nil {
		return nil, err
	}
	g.Scope, g.AuthorizationDetails = allowed.Scope, allowed.GrantDetails
	l := q.Client.Lifetimes
	g.ClientID, g.Epochs, g.CreatedAt, g.ExpiresAt = q.Client.ID, st.Epochs, q.Now, q.Now.Add(l.AccessToken)
	g.Confirmation = q.heldBy()
	refreshes := !i.Alone && q.Client.HasGrant(client.GrantRefreshToken) && !allowed.Limited
	if refreshes {
		g.ExpiresAt = q.Now.Add(l.RefreshChain)
	}
	access, err := s.tokens.DraftGrantAccess(q.Client, id, g, g.Scope, allowed.Resources, allowed.Details, q.Proved,
		EventAccessIssued, q.From, q.Now)
	if err != nil {
		return nil, err
	}
	access.Explain("", i.Reason)
	answer := s.respond(q.Client, access, q.Now)
	var refresh *refreshDraft
	if refreshes {
		if refresh, err = s.draftRefresh(id, g, g.Scope, l, q.Now); err != nil {
			return nil, err
		}
		answer.RefreshToken = refresh.token
	}
	if slices.Contains(g.Scope, client.ScopeOpenID) && !i.Alone {
		answer.IDToken, err = s.tokens.SignIDToken(ctx, token.IDToken{
			Client: q.Client, SignIn: g.SignIn, Subject: st.Subject, Scope: g.Scope, Access: access.Token,
		}, q.Now)
		if err != nil {
			return nil, err
		}
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		if err := q.Spend(tx); err != nil {
			return err
		}
		if i.Spend != nil {
			if err := i.Spend(tx); err != nil {
				return err
			}
		}
		if now, err := s.checkStandingAt(tx, q.Client.ID, g.Subject, epoch); err != nil {
			return err
		} else if now.Epochs != g.Epochs {
			return oauth.InvalidGrant(errSignInEnded, "the sign-in has ended")
		}
		if err := s.tokens.StoreGrant(tx, id, *g, q.Client.MaxSessions); err != nil {
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

var errSignInEnded = errors.New("client or person has changed since the sign-in was checked")

// checkStandingAt is standing for a person whose epoch must be as it was.
func (s *Grants) checkStandingAt(tx storage.Tx, clientID, subject string, epoch int64) (token.Standing, error) {
	st, ok, err := s.tokens.CheckStanding(tx, clientID, subject)
	if err == nil && (!ok || st.Subject.Epoch != epoch) {
		err = oauth.InvalidGrant(cmp.Or(st.Refused, errSignInEnded), "the sign-in has ended")
	}
	return st, err
}
