package alert

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Events of alerts. Their reason is the name of the alert.
var (
	created = audit.Type{Type: "alert.AlertCreatedEvent", Name: "Alert Created"}
	changed = audit.Type{Type: "alert.AlertChangedEvent", Name: "Alert Changed"}
	paused  = audit.Type{Type: "alert.AlertPausedEvent", Name: "Alert Paused"}
	resumed = audit.Type{Type: "alert.AlertResumedEvent", Name: "Alert Resumed"}
	removed = audit.Type{Type: "alert.AlertRemovedEvent", Name: "Alert Removed"}
	tested  = audit.Type{Type: "alert.AlertTestedEvent", Name: "Alert Tested"}
)
