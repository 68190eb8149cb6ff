package decision

import (
	"github.com/gatehouse-id/gatehouse/internal/ring"
	"github.com/gatehouse-id/gatehouse/storage"
)

var kept = ring.Tables[Decision]{
	Slots: storage.NewTable[Decision]("decision_slot"),
	Next:  storage.NewTable[uint64]("decision_next"),
	Size:  slotCount, Kept: Kept,
}
