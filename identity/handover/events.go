package handover

import "github.com/gatehouse-id/gatehouse/internal/audit"

// moved is the event of a person who came from an old directory.
var moved = audit.Type{Type: "person.PersonMigratedEvent", Name: "Person Migrated"}
