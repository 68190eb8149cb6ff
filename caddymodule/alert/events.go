package alert

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of alerts. Their reason is the name of the alert.
var (
	created = event.Type{Type: "alert.AlertCreatedEvent", Name: "Alert Created"}
	changed = event.Type{Type: "alert.AlertChangedEvent", Name: "Alert Changed"}
	paused  = event.Type{Type: "alert.AlertPausedEvent", Name: "Alert Paused"}
	resumed = event.Type{Type: "alert.AlertResumedEvent", Name: "Alert Resumed"}
	removed = event.Type{Type: "alert.AlertRemovedEvent", Name: "Alert Removed"}
	tested  = event.Type{Type: "alert.AlertTestedEvent", Name: "Alert Tested"}
)
