package mfa

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of step-ups and their methods.
var (
	stepUpSucceeded        = audit.Type{Type: "login.StepUpSucceededEvent", Name: "Step-up Succeeded"}
	stepUpFailed           = audit.Type{Type: "login.StepUpFailedEvent", Name: "Step-up Failed"}
	stepUpAdded            = audit.Type{Type: "person.StepUpMethodAddedEvent", Name: "Step-up Method Added"}
	stepUpRemoved          = audit.Type{Type: "person.StepUpMethodRemovedEvent", Name: "Step-up Method Removed"}
	recoveryMade           = audit.Type{Type: "person.RecoveryCodesMadeEvent", Name: "Recovery Codes Made"}
	pinLocked              = audit.Type{Type: "person.PINLockedEvent", Name: "PIN Locked"}
	stepUpPreferred        = audit.Type{Type: "person.StepUpMethodPreferredEvent", Name: "Step-up Method Preferred"}
	pushDenied             = audit.Type{Type: "login.PromptDeniedEvent", Name: "Prompt Denied"}
	pinReset               = audit.Type{Type: "person.PINResetEvent", Name: "PIN Reset"}
	deliveredCodeRequested = audit.Type{Type: "person.DeliveredCodeRequestedEvent", Name: "Delivered Code Requested"}
	passkeyAdded           = audit.Type{Type: "person.PasskeyAddedEvent", Name: "Passkey Added"}
	passkeyRenamed         = audit.Type{Type: "person.PasskeyRenamedEvent", Name: "Passkey Renamed"}
	passkeyRemoved         = audit.Type{Type: "person.PasskeyRemovedEvent", Name: "Passkey Removed"}
	passkeySuspected       = audit.Type{Type: "person.PasskeyCopySuspectedEvent", Name: "Passkey Copy Suspected"}
)
