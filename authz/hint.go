package authz

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// hinted reports whether a sign-in is that of the person that id_token_hint or the claims parameter names, if they name
// one.
func (s *Server) hinted(q *requestRecord, result *authn.Result) bool {
	return q.HintSubject == "" || q.HintSubject == s.tokens.SubjectIn(q.HintSector, result.Subject)
}

// hint demands a person. A request can demand only one.
func (q *requestRecord) hint(sector, subject string) error {
	if q.HintSubject != "" && (q.HintSubject != subject || q.HintSector != sector) {
		return oauth.InvalidRequest(nil, "the request names several persons")
	}
	q.HintSubject, q.HintSector = subject, sector
	return nil
}

// hintSector returns the sector in which an ID token of a client names its person. For a removed client it is the
// public one.
func (s *Server) hintSector(ctx context.Context, clientID string) (string, error) {
	c, err := s.clients.Get(ctx, clientID)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return c.Sector(), nil
}
