package device

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	eventApproved = audit.Type{Type: "device.DeviceApprovedEvent", Name: "Device Approved"}
	eventDenied   = audit.Type{Type: "device.DeviceDeniedEvent", Name: "Device Denied"}
)
