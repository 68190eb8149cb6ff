package settings

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of this package.
var (
	configurationUpdated = audit.Type{Type: "configuration.ConfigurationUpdatedEvent", Name: "Configuration Updated"}
	// signInUpdated is in addition to configurationUpdated: the settings of sign-in are among what has changed.
	signInUpdated = audit.Type{Type: "configuration.SignInSettingsUpdatedEvent", Name: "Sign-In Settings Updated"}
)
