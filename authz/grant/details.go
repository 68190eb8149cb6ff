package grant

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refreshLimit is the maximum time that an introspection waits for an identity provider.
const refreshLimit = 2 * time.Second

// headerDetails tells a caller that has asked for fresh user_details whether it got them: refreshed or cached.
// (docs/decisions/sign-out.md#fresh-user-details)
const headerDetails = "Gatehouse-User-Details"

var errCannotAsk = errors.New("the identity provider of the session cannot be asked again, or there is none")

// refreshDetails asks the provider of the sign-in for user_details again and stores them with the grant. (token server
// document, "Token introspection", refresh_user_details) If the provider cannot answer, the known details stay, and it
// reports false.
func (s *Grants) refreshDetails(ctx context.Context, token string, i *token.Introspection) bool {
	fresh, err := s.askDetails(ctx, token, i)
	if err != nil {
		s.deps.Log.Warn("user details not refreshed", zap.String("client_id", i.ClientID), zap.String("session_id", i.SessionID), zap.Error(err))
		return false
	}
	person := *i.Person // shared
	person.Details = fresh
	i.Person = &person
	return true
}

func (s *Grants) askDetails(ctx context.Context, token string, i *token.Introspection) (map[string][]string, error) {
	if i.Person == nil || i.SessionID == "" {
		return nil, errCannotAsk
	}
	limited, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	fresh, err := s.deps.Subjects.RefreshDetails(limited, i.Subject, i.SessionID, i.Provider)
	if err == nil && fresh == nil {
		err = errCannotAsk
	}
	if err != nil {
		return nil, err
	}
	return fresh, s.keepDetails(ctx, token, fresh)
}

// keepDetails writes the details into the grant of the token.
func (s *Grants) keepDetails(ctx context.Context, token string, fresh map[string][]string) error {
	access, isAccess := s.tokens.AccessKey(token)
	return s.update(ctx, func(tx storage.Tx) error {
		if isAccess {
			rec, _, err := s.tokens.FindAccess(tx, access)
			if err != nil {
				return err
			}
			return s.tokens.ChangeDetails(tx, rec.GrantID, fresh)
		}
		rec, _, err := refreshes.Find(tx, secret.Hash(token))
		if err != nil {
			return err
		}
		return s.tokens.ChangeDetails(tx, rec.GrantID, fresh)
	})
}
