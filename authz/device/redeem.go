package device

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

var (
	errForeign  = errors.New("unknown device code, or another client's")
	errRedeemed = denial.New(denial.CodeReplayed, "the device code was redeemed before")
	errEnded    = errors.New("client, person, session or consent has ended since the approval")
)

// later is the answer to a device that has to ask again: no refusal, so it is neither logged nor kept. (RFC 8628 3.5)
type later struct{ code string }

// Status is that of the answer.
func (later) Status() int { return http.StatusBadRequest }

// AppendJSON implements jsonresponse.Body.
func (l later) AppendJSON(dst []byte) []byte {
	return jsonresponse.Error{Error: l.code}.AppendJSON(dst)
}

// redeem answers a device that asks for its tokens. (RFC 8628 3.4, 3.5) That it has to wait comes from memory until the
// person decides. (docs/adr/0006-answers-in-memory.md) Then what was decided, the person and the client are looked at
// each time.
func (s *Service) redeem(ctx context.Context, q *grant.Request) (jsonresponse.Body, error) {
	code := q.Form.Get("device_code")
	if code == "" {
		return nil, oauth.InvalidRequest(nil, "device_code is missing")
	}
	if !secret.IsToken(secret.DeviceCode, code) {
		return nil, refuse(errForeign)
	}
	key := hashOf(code)
	question := depcache.KeyOf(0, code)
	if w, found := s.waits.Find(question, q.Now); found && w.client == q.Client.ID {
		return s.wait(ctx, q, key, w.interval)
	}
	if err := s.deps.Clients.RefreshProviders(ctx); err != nil {
		return nil, err
	}
	var rec requestRecord
	_, _, err := s.waits.Look(ctx, question, q.Now, func(tx storage.Tx) (w waiting, until time.Time, err error) {
		found := false
		if rec, found, err = requests.Find(tx, key); err == nil && (!found || rec.ClientID != q.Client.ID) {
			err = refuse(errForeign)
		}
		if rec.Decision == pending {
			until = rec.ExpiresAt
		}
		return waiting{rec.ClientID, rec.Interval}, until, err
	})
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	denial.Learn(ctx, func(a *denial.Refusal) { a.PersonID, a.Provider = rec.SignIn.Subject, rec.SignIn.Provider })
	switch {
	case rec.Decision == redeemed:
		return nil, refuse(errRedeemed)
	case rec.Decision == denied:
		return nil, &oauth.Error{
			Status: http.StatusBadRequest, Code: "access_denied",
			Description: "the request was denied", Cause: oauth.ErrDenied,
		}
	case !rec.ExpiresAt.After(q.Now):
		return nil, &oauth.Error{Status: http.StatusBadRequest, Code: "expired_token", Description: "the device code has expired"}
	case rec.Decision == pending:
		return s.wait(ctx, q, key, rec.Interval)
	}
	return s.give(ctx, q, key, &rec)
}

func refuse(cause error) error {
	return oauth.InvalidGrant(cause, "device_code is unknown, was used before or has been withdrawn")
}

// wait tells a device to ask later. One that asks too early has to wait longer from then on.
func (s *Service) wait(ctx context.Context, q *grant.Request, key string, interval int) (jsonresponse.Body, error) {
	last, asked := s.polls.last(key, q.Now)
	if !asked || q.Now.Sub(last) >= time.Duration(interval)*time.Second-pollTolerance {
		return later{"authorization_pending"}, nil
	}
	if interval >= longest {
		return later{"slow_down"}, nil
	}
	err := s.update(ctx, func(tx storage.Tx) error {
		now, err := open(tx, key, q.Now)
		if errors.Is(err, errUnknown) { // decided meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		now.Interval = min(now.Interval+slowDown, longest)
		return put(tx, key, &now)
	})
	if err != nil {
		return nil, err
	}
	return later{"slow_down"}, nil
}

// give issues the tokens of an approved request.
func (s *Service) give(ctx context.Context, q *grant.Request, key string, rec *requestRecord) (jsonresponse.Body, error) {
	wish, err := s.deps.Clients.WishOf(q.Client, q.Form)
	if err != nil {
		return nil, err
	}
	return s.deps.Grants.IssueGrant(ctx, q, &grant.Issuance{
		Grant: token.Grant{SignIn: rec.SignIn, Scope: rec.Scope, Resources: rec.Resources, AuthorizationDetails: rec.AuthorizationDetails},
		Wish:  wish, Epoch: rec.Epochs.Person,
		Spend: func(tx storage.Tx) error { return s.spend(tx, q, key) },
	})
}

// spend marks an approved request as redeemed, in the transaction that stores its tokens, after everything that the
// approval rests on was looked at once more.
func (s *Service) spend(tx storage.Tx, q *grant.Request, key string) error {
	rec, found, err := requests.Find(tx, key)
	if err != nil {
		return err
	}
	if !found || rec.Decision != approved {
		return refuse(errRedeemed)
	}
	st, good, err := s.deps.Tokens.CheckStanding(tx, rec.ClientID, rec.SignIn.Subject)
	if err != nil {
		return err
	}
	if !good || st.Epochs != rec.Epochs {
		return refuse(cmp.Or(st.Refused, errEnded))
	}
	if live, err := s.deps.Grants.HasSession(tx, &rec.SignIn, st.Subject.Epoch, q.Now); err != nil {
		return err
	} else if !live {
		return refuse(errEnded)
	}
	if given, err := consent.Covers(tx, rec.SignIn.Subject, rec.ClientID, rec.wish()); err != nil {
		return err
	} else if !given {
		return refuse(errEnded)
	}
	rec.Decision = redeemed
	return put(tx, key, &rec)
}
