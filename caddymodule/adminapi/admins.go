package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/recovery"
)

// consolePath is the path of the admin console.
const consolePath = "/admin"

// OwnerLink is the answer of a person who was made an owner of the admin console.
type OwnerLink struct {
	recovery.HandedReset

	Console string `json:"console"` // where it is
}

// adminInviteOwner makes an owner of the admin console, and a link with which they choose a password on the way there.
func adminInviteOwner(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	u, err := i.Config.Current(r.Context())
	if err != nil {
		return nil, err
	}
	if !u.Features.AdminConsoleEnabled {
		return nil, badRequestf("the admin console is off: add `admin_console on` to the block identity of the Caddyfile and reload")
	}
	if _, err := i.manage().MakeOwner(r.Context(), in.Person, i.OwnerGroup, caller(r)); err != nil {
		return nil, err
	}
	link, err := i.Identity.Recovery.HandFirst(r.Context(), in.Person, consolePath, caller(r))
	return OwnerLink{link, i.Issuer + consolePath}, i.aboutPerson(r, in.Person, err)
}
