package backup

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of backups. Their reason is the file.
var (
	started = event.Type{Type: "storage.BackupStartedEvent", Name: "Backup Started"}
	ended   = event.Type{Type: "storage.BackupMadeEvent", Name: "Backup Made"}
	broken  = event.Type{Type: "storage.BackupFailedEvent", Name: "Backup Failed"}
)
