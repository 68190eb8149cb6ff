package trusted

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of trusted browsers. What ends the trust in all of them, such as a new password, has its own event.
var (
	browserTrusted = event.Type{Type: "login.BrowserTrustedEvent", Name: "Browser Trusted"}
	browserUsed    = event.Type{Type: "login.TrustedBrowserUsedEvent", Name: "Trusted Browser Used"}
	// Ended is the event of a browser that is no longer trusted, or of all of a person that end together.
	Ended = event.Type{Type: "login.BrowserTrustEndedEvent", Name: "Browser No Longer Trusted"}
)
