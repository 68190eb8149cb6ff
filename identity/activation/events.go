package activation

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// activationFailed is the event of a wrong code.
var activationFailed = audit.Type{Type: "person.ActivationFailedEvent", Name: "Activation Failed"}
