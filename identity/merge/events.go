package merge

import "github.com/gatehouse-id/gatehouse/internal/event"

// merged says that an account has taken over another one, which its reason names.
var merged = event.Type{Type: "person.PersonsMergedEvent", Name: "Persons Merged"}
