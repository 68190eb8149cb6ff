package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LimitUse is the part of a limit or quota that a caller has used.
type LimitUse struct {
	ID        string `json:"id"`
	Limit     string `json:"limit"`
	Kind      string `json:"kind,omitempty"` // of the caller: client, person, app_password, session, token, claim or ip. Empty: everyone
	Caller    string `json:"caller,omitempty"`
	Used      int64  `json:"used"`
	Of        int64  `json:"of"`
	ResetSecs int64  `json:"reset_seconds"`
	// WaitSecs is the number of seconds until a request passes. 0: one passes now
	WaitSecs int64 `json:"wait_seconds,omitempty"`
}

// NearShare is the used share of a limit from which on a caller is near it.
const NearShare = 0.8

var callerKinds = map[byte]string{
	limit.AClient: "client", limit.APerson: "person", limit.AnAppPassword: "app_password", limit.ASession: "session", limit.AClaim: "claim",
}

// NearLimits returns the callers of this process that have used at least a share of a limit or quota, those that have
// used most of it first. Only those that keep accepts are returned.
func (s *Service) NearLimits(share float64, most int, now time.Time, keep func(*LimitUse) bool) []LimitUse {
	out := []LimitUse{}
	for _, u := range s.Limits.Near(share, most, now, func(u *limit.Use) bool {
		one := limitUse(u)
		return keep == nil || keep(&one)
	}) {
		out = append(out, limitUse(&u))
	}
	return out
}

// FindLimit returns what a caller has used of a limit or quota, or ErrGone.
func (s *Service) FindLimit(id string, now time.Time) (LimitUse, error) {
	k, err := limit.ParseID(id)
	if err != nil {
		return LimitUse{}, ErrGone
	}
	found := s.Limits.Near(0, 1, now, func(u *limit.Use) bool { return u.Key == k })
	if len(found) == 0 {
		return LimitUse{}, ErrGone
	}
	return limitUse(&found[0]), nil
}

func limitUse(u *limit.Use) LimitUse {
	out := LimitUse{
		ID: u.ID(), Limit: u.About, Caller: u.Name, Used: u.Used, Of: u.Limit, ResetSecs: int64(u.Reset.Seconds()),
		WaitSecs: int64((u.Retry + time.Second - 1) / time.Second),
	}
	switch {
	case u.Name != "":
		out.Kind = callerKinds[u.Addr[0]]
	case u.Address:
		out.Kind, out.Caller = "ip", netip.AddrFrom16(u.Addr).Unmap().String()
	case u.Addr != [16]byte{}:
		out.Kind, out.Caller = "token", hex.EncodeToString(u.Addr[:4])
	}
	return out
}

// LiftLimit forgets once what a caller has used of a limit or quota. It returns ErrGone if no one is counted under the
// id.
func (s *Service) LiftLimit(ctx context.Context, id string, by audit.Actor) error {
	u, err := s.FindLimit(id, s.Recorder.Now())
	if err != nil {
		return err
	}
	e, err := s.Recorder.New(limitLifted, by.Origin)
	if err != nil {
		return err
	}
	err = s.Limits.Lift(ctx, id, func(tx storage.Tx, k limit.Key) error {
		e, person := e, ""
		switch {
		case k.Name == "":
		case k.Addr[0] == limit.AClient:
			e.ClientID = k.Name
		case k.Addr[0] == limit.APerson:
			person = k.Name
		}
		return s.Recorder.Append(tx, by.Fill(e, person, fmt.Sprintf("%s: %d of %d", u.Limit, u.Used, u.Of)))
	})
	if errors.Is(err, limit.ErrUnknown) {
		return ErrGone
	}
	return err
}
