package proof

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of proofs.
var (
	LoginFailed       = event.Type{Type: "login.LoginFailedEvent", Name: "Login Failed", Counts: event.CountFailed}
	LoginThrottled    = event.Type{Type: "login.LoginThrottledEvent", Name: "Login Throttled"}
	failuresForgotten = event.Type{Type: "login.FailuresForgottenEvent", Name: "Failed Sign-ins Forgotten"}
	deliveredCodeMade = event.Type{Type: "person.DeliveredCodeMadeEvent", Name: "Delivered Code Made"}
	numberCodeSent    = event.Type{Type: "person.PhoneNumberCodeSentEvent", Name: "Phone Number Code Sent"}
)
