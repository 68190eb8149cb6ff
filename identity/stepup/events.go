package stepup

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of step-ups and their methods.
var (
	stepUpSucceeded        = event.Type{Type: "login.StepUpSucceededEvent", Name: "Step-up Succeeded"}
	stepUpFailed           = event.Type{Type: "login.StepUpFailedEvent", Name: "Step-up Failed"}
	stepUpAdded            = event.Type{Type: "person.StepUpMethodAddedEvent", Name: "Step-up Method Added"}
	stepUpRemoved          = event.Type{Type: "person.StepUpMethodRemovedEvent", Name: "Step-up Method Removed"}
	recoveryMade           = event.Type{Type: "person.RecoveryCodesMadeEvent", Name: "Recovery Codes Made"}
	pinLocked              = event.Type{Type: "person.PINLockedEvent", Name: "PIN Locked"}
	stepUpPreferred        = event.Type{Type: "person.StepUpMethodPreferredEvent", Name: "Step-up Method Preferred"}
	pushDenied             = event.Type{Type: "login.PromptDeniedEvent", Name: "Prompt Denied"}
	pinReset               = event.Type{Type: "person.PINResetEvent", Name: "PIN Reset"}
	deliveredCodeRequested = event.Type{Type: "person.DeliveredCodeRequestedEvent", Name: "Delivered Code Requested"}
	passkeyAdded           = event.Type{Type: "person.PasskeyAddedEvent", Name: "Passkey Added"}
	passkeyRenamed         = event.Type{Type: "person.PasskeyRenamedEvent", Name: "Passkey Renamed"}
	passkeyRemoved         = event.Type{Type: "person.PasskeyRemovedEvent", Name: "Passkey Removed"}
	passkeySuspected       = event.Type{Type: "person.PasskeyCopySuspectedEvent", Name: "Passkey Copy Suspected"}
)
