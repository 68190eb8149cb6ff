package trustedbrowser

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Events of trusted browsers. What ends the trust in all of them, such as a new password, has its own event.
var (
	browserTrusted = audit.Type{Type: "login.BrowserTrustedEvent", Name: "Browser Trusted"}
	browserUsed    = audit.Type{Type: "login.TrustedBrowserUsedEvent", Name: "Trusted Browser Used"}
	// Ended is the event of a browser that is no longer trusted, or of all of a person that end together.
	Ended = audit.Type{Type: "login.BrowserTrustEndedEvent", Name: "Browser No Longer Trusted"}
)
