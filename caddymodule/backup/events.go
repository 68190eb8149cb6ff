package backup

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of backups. Their reason is the file, or the schedule.
var (
	started = event.Type{Type: "storage.BackupStartedEvent", Name: "Backup Started"}
	ended   = event.Type{Type: "storage.BackupMadeEvent", Name: "Backup Made"}
	planned = event.Type{Type: "storage.BackupScheduleChangedEvent", Name: "Backup Schedule Changed"}
	tried   = event.Type{Type: "storage.BackupTestedEvent", Name: "Backup Tested"}
	broken  = event.Type{Type: "storage.BackupFailedEvent", Name: "Backup Failed"}
)
