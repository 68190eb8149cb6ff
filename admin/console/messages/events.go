package messages

import "github.com/gatehouse-id/gatehouse/internal/audit"

// testSent is the event of a test e-mail, which goes to the administrator who asks for it.
var testSent = audit.Type{Type: "console.TestMessageSentEvent", Name: "Test Message Sent"}
