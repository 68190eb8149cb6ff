package grant

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refreshLimit is how long an introspection waits for an identity provider.
const refreshLimit = 2 * time.Second

// refreshDetails asks the provider of the sign-in for user_details again and stores them with the grant. (token server
// document, "Token introspection", refresh_user_details) If the provider cannot answer, the known details stay.
func (s *Grants) refreshDetails(ctx context.Context, token string, i *token.Introspection) {
	if i.Person == nil || i.SessionID == "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	fresh, err := s.deps.Subjects.RefreshDetails(limited, i.Subject, i.SessionID, i.Provider)
	if err == nil && fresh != nil {
		err = s.keepDetails(ctx, token, fresh)
	}
	if err != nil {
		s.deps.Log.Warn("user details not refreshed", zap.String("session_id", i.SessionID), zap.Error(err))
		return
	}
	if fresh == nil {
		return
	}
	person := *i.Person // shared
	person.Details = fresh
	i.Person = &person
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
