package dbsc

import "github.com/gatehouse-id/gatehouse/storage"

// used has the challenges that were answered, until they would have ended.
var used = storage.NewTable[struct{}]("device_challenge")
