package backup

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Events of backups. Their reason is the file, or the schedule.
var (
	started = audit.Type{Type: "storage.BackupStartedEvent", Name: "Backup Started"}
	ended   = audit.Type{Type: "storage.BackupMadeEvent", Name: "Backup Made"}
	planned = audit.Type{Type: "storage.BackupScheduleChangedEvent", Name: "Backup Schedule Changed"}
	tried   = audit.Type{Type: "storage.BackupTestedEvent", Name: "Backup Tested"}
	broken  = audit.Type{Type: "storage.BackupFailedEvent", Name: "Backup Failed"}
)
