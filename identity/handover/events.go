package handover

import "github.com/gatehouse-id/gatehouse/internal/event"

// moved is the event of a person who came from an old directory.
var moved = event.Type{Type: "person.PersonMigratedEvent", Name: "Person Migrated"}
