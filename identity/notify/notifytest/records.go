package notifytest

import "github.com/gatehouse-id/gatehouse/storage"

// sent has the ids of what was sent.
var sent = storage.NewTable[struct{}]("notifytest_sent")
