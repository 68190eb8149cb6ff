package sessionindex

import "github.com/gatehouse-id/gatehouse/storage"

// Every stored record of the package.
var entries = storage.NewTable[struct{}]("session_place") // kind, value, session
