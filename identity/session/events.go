package session

import "github.com/gatehouse-id/gatehouse/internal/audit"

// deviceBound says that a session was bound to the device of its browser.
var deviceBound = audit.Type{Type: "session.DeviceBoundEvent", Name: "Session Bound To A Device"}
