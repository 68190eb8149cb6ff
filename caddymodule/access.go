package caddymodule

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// siteAccess is the view of requests for access that protect has.
type siteAccess struct{ *access.Service }

// State implements protect.Access. A grant that was revoked is one that there never was.
func (s siteAccess) State(ctx context.Context, personID, site string) (protect.AccessState, string, error) {
	r, err := s.Find(ctx, personID, site)
	if errors.Is(err, access.ErrNone) {
		return protect.AccessNone, "", nil
	}
	states := map[access.State]protect.AccessState{
		access.Open: protect.AccessOpen, access.Granted: protect.AccessGranted,
		access.Refused: protect.AccessRefused,
	}
	return states[r.State], r.Note, err
}

// Ask implements protect.Access.
func (s siteAccess) Ask(ctx context.Context, site, reason string, by audit.Actor) (problem string, err error) {
	switch err = s.Service.Ask(ctx, site, reason, by); {
	case errors.Is(err, access.ErrReason):
		return "access.problem.reason", nil
	case errors.Is(err, access.ErrTooSoon):
		return "access.problem.wait", nil
	case errors.Is(err, access.ErrOpen):
		return "", nil
	}
	return "", err
}

var _ protect.Access = siteAccess{}
