package denial

import (
	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/storage"
)

var kept = recentlog.Tables[Refusal]{
	Slots: storage.NewTable[Refusal]("refusal_slot"),
	Next:  storage.NewTable[uint64]("refusal_next"),
	Kept:  Kept,
}
