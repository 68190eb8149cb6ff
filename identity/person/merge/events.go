package merge

import "github.com/gatehouse-id/gatehouse/internal/audit"

// merged says that an account has taken over another one, which its reason names.
var merged = audit.Type{Type: "person.PersonsMergedEvent", Name: "Persons Merged"}
