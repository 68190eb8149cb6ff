package config

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of this package.
var (
	configurationUpdated = event.Type{Type: "configuration.ConfigurationUpdatedEvent", Name: "Configuration Updated"}
)
