package caddymodule

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/maintenance"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// openBackups opens what makes backups.
func (b *builder) openBackups() {
	i := b.inst
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	i.backups = &backup.Service{Store: i.core.Store, Recorder: b.events, Dir: b.backupDir(), Host: host, Log: i.log.Named("backup")}
	free := i.core.Metrics.Free()
	if s, ok := b.storage.(interface{ Watermark() uint64 }); ok && free != nil {
		i.backups.Room = func() bool { return free() > 2*s.Watermark() }
	}
	if s, ok := b.storage.(interface {
		RestoreTo(ctx context.Context, dir string, r io.Reader, after func(storage.Tx) error) error
	}); ok {
		i.backups.Restore = s.RestoreTo
	}
	i.onClose("backups", i.backups.Close)
}

// backupDir is the directory for the backups of the console: next to that of the storage, like the key file.
func (b *builder) backupDir() string {
	base := filepath.Join(caddy.AppDataDir(), "gatehouse")
	if kf, ok := b.storage.(shared.KeyFiler); ok {
		path, _ := kf.KeyFile()
		base = strings.TrimSuffix(path, ".key")
	}
	return base + ".backups"
}

// upkeep returns the dependencies of the console's screens about the storage.
func (b *builder) upkeep() maintenance.Deps {
	i := b.inst
	engine, place, _ := strings.Cut(i.core.Place, " ")
	d := maintenance.Deps{
		Backups: i.backups, Engine: engine, Place: place, PlaceOf: b.Places.Of, Free: i.core.Metrics.Free(),
		EndEverything: func(ctx context.Context, by audit.Actor) error {
			return i.authz.RevokeEverything(ctx, by, session.EndAllSessions)
		},
	}
	if s, ok := b.storage.(interface{ Size() (int64, error) }); ok {
		d.Size = s.Size
	}
	return d
}
