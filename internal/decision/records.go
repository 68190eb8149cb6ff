package decision

import "github.com/gatehouse-id/gatehouse/storage"

// The ring of decisions. Slots are overwritten in order, so that strangers cannot fill a disk.
var (
	slots = storage.NewTable[Decision]("decision_slot") // number of the slot -> decision
	nexts = storage.NewTable[uint64]("decision_next")   // "" -> the number of the next decision
)
