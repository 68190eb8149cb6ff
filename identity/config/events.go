package config

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of this package.
var (
	configurationUpdated = event.Type{Type: "configuration.ConfigurationUpdatedEvent", Name: "Configuration Updated"}
	// signInUpdated is in addition to configurationUpdated: the settings of sign-in are among what has changed.
	signInUpdated = event.Type{Type: "configuration.SignInSettingsUpdatedEvent", Name: "Sign-In Settings Updated"}
)
