// Package upkeep is the part of the admin console about what keeps an installation going: the storage and its backups,
// who waits for an invitation or an activation, and what is slowed down after failed attempts. What is done belongs to
// caddymodule/backup, authz and identity, and the commands share it; what all pages have in common is in package frame.
package upkeep

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/backup"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// Deps is what the screens work with.
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
	EndEverything func(ctx context.Context, by event.Actor) error
}

// upkeep makes the screens.
type upkeep struct {
	*frame.Frame
	Deps
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *frame.Frame, d Deps) []*frame.Screen {
	u := &upkeep{f, d}
	return []*frame.Screen{u.waitingScreen(), u.blockedScreen(), u.storageScreen()}
}

// when is a time, or a dash for none.
func when(t time.Time) page.Cell {
	if t.IsZero() {
		return frame.OrNone("")
	}
	return page.Cell{Text: page.Say("console.time", "time", t)}
}
