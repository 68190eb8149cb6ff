package config

import "github.com/gatehouse-id/gatehouse/internal/event"

// configurationUpdated is the one kind of event of this package.
var configurationUpdated = event.Type{Type: "configuration.ConfigurationUpdatedEvent", Name: "Configuration Updated"}
