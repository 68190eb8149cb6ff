// Package maintenance has the screens of the admin console that keep an installation running: storage, backups, pending
// invitations and activations, and throttled sign-ins. The work is done by admin/backup, authz and identity, as for the
// commands.
package maintenance

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Deps are the dependencies of the screens.
type Deps struct {
	Backups *backup.Service
	// Engine is badger or postgres, Place where the records lie.
	Engine, Place string
	// PlaceOf returns where an option stands in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	// Size is the space that the records take on the disk, Free what is left there. nil: the engine does not tell.
	Size func() (int64, error)
	Free func() uint64
	// EndEverything ends every session and token.
	EndEverything func(ctx context.Context, by audit.Actor) error
}

// upkeep makes the screens.
type upkeep struct {
	*layout.Frame
	Deps
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *layout.Frame, d Deps) []*layout.Screen {
	u := &upkeep{f, d}
	return []*layout.Screen{u.waitingScreen(), u.blockedScreen(), u.storageScreen()}
}

// when is a time, or a dash for none.
func when(t time.Time) web.Cell {
	if t.IsZero() {
		return layout.OrNone("")
	}
	return web.Cell{Text: web.Say("console.time", "time", t)}
}
