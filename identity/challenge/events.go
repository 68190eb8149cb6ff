package challenge

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of proofs.
var (
	LoginFailed       = audit.Type{Type: "login.LoginFailedEvent", Name: "Login Failed", Counts: audit.CountFailed}
	LoginThrottled    = audit.Type{Type: "login.LoginThrottledEvent", Name: "Login Throttled"}
	failuresForgotten = audit.Type{Type: "login.FailuresForgottenEvent", Name: "Failed Sign-ins Forgotten"}
	deliveredCodeMade = audit.Type{Type: "person.DeliveredCodeMadeEvent", Name: "Delivered Code Made"}
	numberCodeSent    = audit.Type{Type: "person.PhoneNumberCodeSentEvent", Name: "Phone Number Code Sent"}
)
