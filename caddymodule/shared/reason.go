package shared

import (
	"errors"
	"syscall"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// Reason is the part of an error of the storage that is safe to show to anyone.
func Reason(err error) string {
	switch {
	case errors.Is(err, cluster.ErrClock):
		return "clock: it differs too much from that of the storage"
	case errors.Is(err, cluster.ErrNewer):
		return "version: a newer version of Gatehouse has taken over the storage"
	case errors.Is(err, cluster.ErrSilent):
		return "storage: this server could not write to it for long"
	case errors.Is(err, storage.ErrLost):
		return "storage: acknowledged writes were lost: see caddy gatehouse accept-loss"
	case errors.Is(err, storage.ErrFull):
		return "storage: too little free space"
	case errors.Is(err, storage.ErrCorrupt):
		return "storage: damaged"
	case errors.Is(err, badgerstore.ErrRemoved):
		return "storage: its directory was removed or replaced"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "storage: no file descriptors are left"
	case errors.Is(err, syscall.ENOSPC):
		return "storage: the disk is full"
	case errors.Is(err, syscall.EIO):
		return "storage: the disk reports an error"
	default:
		return "storage: unavailable"
	}
}
