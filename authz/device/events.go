package device

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventApproved = event.Type{Type: "device.DeviceApprovedEvent", Name: "Device Approved"}
	eventDenied   = event.Type{Type: "device.DeviceDeniedEvent", Name: "Device Denied"}
)
