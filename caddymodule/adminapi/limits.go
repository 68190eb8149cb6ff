package adminapi

import (
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LimitUse is the part of a limit or quota that a caller has used.
type LimitUse struct {
	ID        string `json:"id"`
	Limit     string `json:"limit"`
	Kind      string `json:"kind,omitempty"` // of the caller: client, person, app_password, session, claim, ip
	Caller    string `json:"caller,omitempty"`
	Used      int64  `json:"used"`
	Of        int64  `json:"of"`
	ResetSecs int64  `json:"reset_seconds"`
}

// LimitID is the id of a LimitUse.
type LimitID struct {
	ID string `json:"id"`
}

const (
	nearShare = 0.8
	mostUses  = 100
)

var limitKinds = map[byte]string{
	limit.AClient: "client", limit.APerson: "person", limit.AnAppPassword: "app_password", limit.ASession: "session", limit.AClaim: "claim",
}

func adminListLimits(i *Instance, _ http.ResponseWriter, _ *http.Request) (any, error) {
	out := []LimitUse{}
	for _, u := range i.Limits.Near(nearShare, mostUses, time.Now()) {
		one := LimitUse{ID: u.ID(), Limit: u.About, Caller: u.Name, Used: u.Used, Of: u.Limit, ResetSecs: int64(u.Reset.Seconds())}
		switch {
		case u.Name != "":
			one.Kind = limitKinds[u.Addr[0]]
		case u.Address:
			one.Kind, one.Caller = "ip", netip.AddrFrom16(u.Addr).Unmap().String()
		case u.Addr != [16]byte{}:
			one.Kind, one.Caller = "token", hex.EncodeToString(u.Addr[:4])
		}
		out = append(out, one)
	}
	return out, nil
}

func adminLiftLimit(i *Instance, r *http.Request, in LimitID) (any, error) {
	by := caller(r)
	e, err := i.Recorder.New(eventLimitLifted, by.Origin)
	if err != nil {
		return nil, err
	}
	err = i.Limits.Lift(r.Context(), in.ID, func(tx storage.Tx, k limit.Key) error {
		e, person := e, ""
		switch {
		case k.Name == "":
		case k.Addr[0] == limit.AClient:
			e.ClientID = k.Name
		case k.Addr[0] == limit.APerson:
			person = k.Name
		}
		e = by.Fill(e, person, "")
		return i.Recorder.Append(tx, e)
	})
	if errors.Is(err, limit.ErrUnknown) {
		return nil, badRequestf("%v", err)
	}
	return struct{}{}, err
}
